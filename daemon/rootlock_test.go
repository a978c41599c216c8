package daemon

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// padiOf is the padi of a world, which locks its state root.
func (w *world) padiOf(held chan<- *RootLock) ServeConfig {
	c := w.config()
	c.Home = HomeFor(Padi, w.root, w.getenv)
	c.Open = func(ctx context.Context, self Hello) (http.Handler, error) {
		lock, err := LockRoot(ctx, self, c.Log)
		if err != nil {
			return nil, err
		}
		held <- lock
		return http.NotFoundHandler(), nil
	}
	return c
}

func TestOnePadiForAStateRootInAnyRuntimeDirectory(t *testing.T) {
	one, two := newWorld(t), newWorld(t)
	two.root, two.env[StateRootVar] = one.root, one.root
	held := make(chan *RootLock, 2)
	first, stop := one.serve(one.padiOf(held))
	lock := <-held
	err := Serve(t.Context(), two.padiOf(held))
	running, ok := errors.AsType[*RunningError](err)
	if !ok || running.PID != first.PID || running.Socket != first.Socket || !strings.Contains(err.Error(), first.Socket) {
		t.Fatalf("the second got %v", err)
	}

	// Whoever wants one is led to the first.
	second := HomeFor(Padi, two.root, two.getenv)
	got, err := Start(t.Context(), StartConfig{Home: second, Exe: "/nonexistent", Name: "padi", Environ: two.environ(), Log: two.log()})
	if err != nil || got != first {
		t.Errorf("Start gave %+v, %v", got, err)
	}
	for name, want := range map[string]Want{"any": {Getenv: two.getenv}, "of the root": {StateRoot: two.root, Getenv: two.getenv}} {
		found, err := Find(Padi, want)
		if err != nil || found.Socket != first.Socket || found.StateRoot != two.root || !found.Live || found.GatePID != first.PID {
			t.Errorf("%s: found %+v, %v", name, found, err)
		}
	}

	// The next one waits for the last save of the first, which comes after the end of its service.
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(Padi, Want{Getenv: two.getenv}); err == nil {
		t.Error("one that has ended is still found")
	}
	begun, done := make(chan struct{}), make(chan *RootLock)
	go func() {
		close(begun)
		next, err := LockRoot(t.Context(), Hello{Daemon: "padi", PID: 7, Socket: "/s", StateRoot: one.root}, one.log())
		if err != nil {
			t.Errorf("the next got %v", err)
		}
		done <- next
	}()
	<-begun
	select {
	case <-done:
		t.Fatal("two have the lock")
	default:
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	next := <-done
	if got := readRootLock(rootLockPath("padi", one.root)); got.pid != 7 || got.socket != "/s" {
		t.Errorf("the lock names %+v", got)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

// A child that outlives a padi must not hold the lock.
func TestRootLockIsNotHandedOn(t *testing.T) {
	w := newWorld(t)
	self := Hello{Daemon: "padi", PID: os.Getpid(), Socket: "/nobody", StateRoot: w.root}
	lock, err := LockRoot(t.Context(), self, w.log())
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer in.Close()
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := LockRoot(t.Context(), self, w.log())
	if err != nil {
		t.Fatal(err)
	}
	if again.file == nil {
		t.Error("nothing is locked")
	}
	again.Close()
}

// Machines that share a home have a padi each, as long as nothing better is known.
func TestRootLockOfAnotherMachine(t *testing.T) {
	w := newWorld(t)
	self := Hello{Daemon: "padi", PID: os.Getpid(), Socket: "/nobody", StateRoot: w.root}
	lock, err := LockRoot(t.Context(), self, w.log())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	write(t, rootLockPath("padi", w.root), "12\t/nobody\tanother boot\n")
	other, err := LockRoot(t.Context(), self, w.log())
	if err != nil || other.file != nil {
		t.Errorf("got %+v, %v", other, err)
	}
	if err := errors.Join(other.Name(1, "/x"), other.Close()); err != nil {
		t.Error(err)
	}
	if got := readRootLock(rootLockPath("padi", w.root)); got.pid != 12 {
		t.Errorf("the lock names %+v", got)
	}
}

func TestAmbiguousWithoutAStateRoot(t *testing.T) {
	w := newWorld(t)
	gate := ownGate(t)
	plant(t, HomeFor(Padi, "/one", w.getenv), gate)
	plant(t, HomeFor(Padi, "/two", w.getenv), gate)
	_, err := Find(Padi, Want{Getenv: func(k string) string { return map[string]string{RuntimeVar: w.runtime}[k] }})
	if err == nil || !strings.Contains(err.Error(), "HOME is not set") || strings.Contains(err.Error(), "belongs to") {
		t.Errorf("got %v", err)
	}
}
