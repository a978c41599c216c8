package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ended waits until a process is gone that is not our child, or is a zombie.
func ended(t *testing.T, pid int) {
	t.Helper()
	eventually(t, fmt.Sprintf("the end of process %d", pid), func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

func TestGuardEndsAStoppedDaemon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bound, _ := w.spawn("mute")
	w.env[BindVar] = pidString(bound.Process.Pid)
	hello, err := Start(t.Context(), w.start("serve"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(hello.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	bound.Process.Kill()
	bound.Wait()
	ended(t, hello.PID)
}

func TestGuardGoesWithItsDaemon(t *testing.T) {
	bound := exec.Command("cat")
	hold, err := bound.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := bound.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { hold.Close(); bound.Wait() }()
	in, out := io.Pipe()
	done := make(chan error, 1)
	// Were it to kill, it would kill this test.
	go func() {
		done <- Guard(t.Context(), fmt.Sprintf("%d:%d", os.Getpid(), bound.Process.Pid), in)
	}()
	out.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, who := range []string{"", ":1", "x:1", "0:1", "5", "5:", "5:me"} {
		if err := Guard(t.Context(), who, strings.NewReader("")); err == nil {
			t.Errorf("%q was taken", who)
		}
	}
}

func TestBindingThatIsNoPidKeepsItFromStarting(t *testing.T) {
	for _, value := range []string{"", "me"} {
		w := newWorld(t)
		w.env[BindVar] = value
		c := w.config()
		c.LookupEnv = func(key string) (string, bool) { v, ok := w.env[key]; return v, ok }
		if err := Serve(t.Context(), c); err == nil || !strings.Contains(err.Error(), BindVar) {
			t.Errorf("%q: got %v", value, err)
		}
		if exists(w.home().Dir) {
			t.Errorf("%q: a home was made", value)
		}
	}
}

func TestLogIsBoundedWhileItRuns(t *testing.T) {
	path := t.TempDir() + "/kaval.log"
	log, err := freshLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(os.Args[0], path)
	cmd.Env, cmd.Stderr = append(os.Environ(), roleVar+"=chatter"), log
	if out, err := cmd.Output(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	last, err := os.ReadFile(path)
	if err != nil || len(last) > 110 {
		t.Errorf("the log has %d bytes, %v", len(last), err)
	}
	before, err := os.ReadFile(path + ".old")
	if err != nil || len(before) > 110 || len(before) < 50 {
		t.Errorf("the log before has %d bytes, %v", len(before), err)
	}
	if all := string(before) + string(last); !strings.HasSuffix(all, "line 98\nline 99\n") {
		t.Errorf("lines are missing at the end: %q", all)
	}
}

// A process that has ended and that nobody waits for holds no gate and binds no daemon.
func TestZombieIsDead(t *testing.T) {
	w := newWorld(t)
	child := exec.Command("true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	pid := child.Process.Pid
	started, err := processStart(pid)
	if err != nil {
		t.Fatal(err)
	}
	ended(t, pid)
	if err := OpenHome(w.home()); err != nil {
		t.Fatal(err)
	}
	write(t, w.home().Gate(), fmt.Sprintf("%d\t%d\n", pid, started.UnixMicro()))
	if _, stop := w.serve(w.config()); stop() != nil {
		t.Error("it was held up")
	}
	alive, err := boundProcess(func(string) (string, bool) { return pidString(pid), true })
	if err != nil || alive() {
		t.Errorf("bound to it: %v", err)
	}
}

// kill9 is a daemon that left everything as a SIGKILL does.
func (w *world) kill9() {
	w.t.Helper()
	hello, err := Start(w.t.Context(), w.start("serve"))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := syscall.Kill(hello.PID, syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
	ended(w.t, hello.PID)
	if !exists(hello.Socket) || !exists(w.home().Gate()) {
		w.t.Fatal("nothing was left behind, so there is nothing to test")
	}
}

func TestTwentyStartsAfterAKill(t *testing.T) {
	w := newWorld(t)
	w.kill9()
	hellos, errs := make(chan Hello, 20), make(chan error, 20)
	for range 20 {
		go func() {
			c := w.start("serve")
			c.Timeout = time.Minute
			hello, err := Start(t.Context(), c)
			hellos <- hello
			errs <- err
		}()
	}
	first := <-hellos
	defer end(t, first)
	for range 19 {
		if h := <-hellos; h != first {
			t.Errorf("got %v and %v", first, h)
		}
	}
	for range 20 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestStoppedDaemonIsNotReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hello, err := Start(t.Context(), w.start("serve"))
	if err != nil {
		t.Fatal(err)
	}
	defer end(t, hello)
	if err := syscall.Kill(hello.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	log, err := os.Stat(w.home().Log())
	if err != nil {
		t.Fatal(err)
	}
	c := w.start("serve")
	c.Timeout = 5 * time.Second
	if _, err := Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(pid %d) is there", hello.PID)) {
		t.Errorf("start: got %v", err)
	}
	second, out := w.spawn("serve")
	if err := second.Wait(); err != nil || out.String() != "yield\n" {
		t.Errorf("a second daemon: %v, said %q", err, out)
	}
	if err := syscall.Kill(hello.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if again, err := ReadHello(t.Context(), Unix(hello.Socket)); err != nil || again != hello {
		t.Errorf("then %v, %v", again, err)
	}
	if now, err := os.Stat(w.home().Log()); err != nil || !os.SameFile(log, now) {
		t.Errorf("something else was started: %v", err)
	}
}

func TestStartOverAPredecessorThatIsEnding(t *testing.T) {
	w := newWorld(t)
	dying, _ := w.spawn("mute") // holds the gate, and has closed its socket
	started, err := processStart(dying.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := OpenHome(w.home()); err != nil {
		t.Fatal(err)
	}
	write(t, w.home().Gate(), fmt.Sprintf("%d\t%d\n", dying.Process.Pid, started.UnixMicro()))
	type result struct {
		hello Hello
		err   error
	}
	done := make(chan result, 1)
	c := w.start("serve")
	c.Timeout = time.Minute
	go func() {
		hello, err := Start(t.Context(), c)
		done <- result{hello, err}
	}()
	// The first one that is started gives way to it.
	eventually(t, "the gate is respected", func() bool {
		b, err := os.ReadFile(w.home().Log())
		return err == nil && strings.Contains(string(b), "gave way")
	})
	dying.Process.Kill()
	dying.Wait()
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	end(t, r.hello)
}

// A socket without permission to connect is not an absent one. The superuser connects to it all the same, so that the test
// asks as another user when it is run as root.
func TestNoPermissionIsNoAbsence(t *testing.T) {
	w := newWorld(t)
	plant(t, w.home(), ownGate(t))
	if err := os.Chmod(w.home().Socket(), 0); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		if err := dialAndClose(t.Context(), w.home().Socket()); err == nil || Absent(err) || !errors.Is(err, syscall.EACCES) {
			t.Errorf("got %v", err)
		}
		return
	}
	for _, dir := range []string{filepath.Dir(w.runtime), w.runtime} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got := asAnother(t, w.home().Socket())
	if !strings.HasPrefix(got, "absent=false ") || !strings.Contains(got, "permission denied") {
		t.Errorf("got %s", got)
	}
}

func dialAndClose(ctx context.Context, socket string) error {
	conn, err := Unix(socket).Dial(ctx)
	if err == nil {
		conn.Close()
	}
	return err
}

// asAnother dials as the user nobody.
func asAnother(t *testing.T, socket string) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Dir(filepath.Dir(filepath.Dir(socket))) + "/test"
	b, err := os.ReadFile(exe)
	if err == nil {
		err = os.WriteFile(copied, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(copied, socket)
	cmd.Env, cmd.Dir = []string{roleVar + "=dial"}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestAnotherUsersPlantIsPassedOver(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only the superuser can plant files of another user") // TestOpenHomeOfAnotherUser holds the refusal for everyone
	}
	run := newWorld(t).runtime
	getenv := func(key string) string { return map[string]string{"XDG_RUNTIME_DIR": run}[key] }
	root := run + "/state"
	planted := HomeFor(Kaval, root, getenv)
	if filepath.Dir(planted.Dir) != run {
		t.Fatalf("the first place is %s", planted.Dir)
	}
	for name, plant := range map[string]func() error{
		"a directory": func() error { return os.Mkdir(planted.Dir, 0o777) },
		"a symlink":   func() error { return os.Symlink("/etc", planted.Dir) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := plant(); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(planted.Dir)
			if err := os.Lchown(planted.Dir, 65534, 65534); err != nil {
				t.Fatal(err)
			}
			got := HomeFor(Kaval, root, getenv)
			if filepath.Dir(got.Dir) != "/tmp" {
				t.Errorf("the next place is %s", got.Dir)
			}
			if err := OpenHome(planted); err == nil {
				t.Error("it was used")
			}
		})
	}
}

// tenureIn serves in this process in the given environment, with its parts in the test's hands.
func tenureIn(t *testing.T, w *world) *tenure {
	t.Helper()
	h := w.home()
	if err := OpenHome(h); err != nil {
		t.Fatal(err)
	}
	gate, err := claimGate(h)
	if err != nil {
		t.Fatal(err)
	}
	c := w.config()
	self, err := c.hello()
	if err != nil {
		t.Fatal(err)
	}
	tn := &tenure{ServeConfig: c, gate: gate, home: h, self: self, end: func(error) {}}
	tn.server = &http.Server{Handler: tn.routes(http.NotFoundHandler())}
	if err := tn.bind(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tn.close)
	return tn
}

func TestVanishedRuntimeDirectoryIsLeftForAnother(t *testing.T) {
	w := newWorld(t)
	w.env = map[string]string{"XDG_RUNTIME_DIR": w.runtime}
	elsewhere := HomeFor(Kaval, w.root, func(string) string { return "" })
	t.Cleanup(func() { os.RemoveAll(elsewhere.Dir) })
	tn := tenureIn(t, w)
	before := tn.hello()
	var restored Home
	tn.Restored = func(h Home) { restored = h }
	if err := os.RemoveAll(w.runtime); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(w.runtime, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere", w.home().Dir); err != nil { // nothing can be made there any more
		t.Fatal(err)
	}
	if err := tn.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := tn.hello()
	if after.Socket != elsewhere.Socket() || restored.Socket() != after.Socket || after.StartedAt != before.StartedAt {
		t.Errorf("was %+v, is %+v, restored %v", before, after, restored)
	}
	f, err := Find(Kaval, Want{StateRoot: w.root, Getenv: w.getenv})
	if err != nil || f.Socket != after.Socket {
		t.Errorf("clients find %v, %v", f.Socket, err)
	}
	if got, err := ReadHello(t.Context(), Unix(f.Socket)); err != nil || got != after {
		t.Errorf("it says %v, %v", got, err)
	}
}

func TestNothingIsMadeAnewWithoutTheStateRoot(t *testing.T) {
	w := newWorld(t)
	tn := tenureIn(t, w)
	for _, dir := range []string{w.runtime, w.root} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := tn.check(t.Context()); !Absent(err) {
		t.Errorf("got %v", err)
	}
	if exists(w.runtime) {
		t.Error("the runtime directory is there again")
	}
}

func TestRuntimeDirectoryRemovedUnderADaemon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hello, err := Start(t.Context(), w.start("serve"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(w.runtime); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an answer", func() bool {
		f, err := Find(Kaval, Want{Getenv: w.getenv})
		if err != nil {
			return false
		}
		again, err := ReadHello(t.Context(), Unix(f.Socket))
		return err == nil && again == hello
	})
	again, err := Start(t.Context(), w.start("die"))
	if err != nil || again != hello {
		t.Errorf("a start then gives %v, %v", again, err)
	}
	defer end(t, hello)
	// What it logs from now on is at the log's path again.
	eventually(t, "a log", func() bool { return exists(w.home().Log()) })
}

func TestEarlySIGTERM(t *testing.T) {
	w := newWorld(t)
	for range 4 {
		cmd := exec.Command(os.Args[0], w.root)
		cmd.Env = w.environ(roleVar + "=serve")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil { // at the very moment it says that it is ready
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
		if exists(w.home().Gate()) || exists(w.home().Socket()) {
			t.Fatal("gate or socket stayed behind")
		}
	}
}

// A gate without permission to read is no free one. The superuser reads it all the same, so that as root another user serves.
func TestGateOfModeZero(t *testing.T) {
	w := newWorld(t)
	h := w.home()
	if err := OpenHome(h); err != nil {
		t.Fatal(err)
	}
	write(t, h.Gate(), "999999\t5\n")
	if err := os.Chmod(h.Gate(), 0); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], w.root)
	cmd.Env = w.environ(roleVar + "=serve")
	if os.Getuid() == 0 {
		cmd = w.asNobody(cmd)
	}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "permission denied") {
		t.Errorf("it ended with %v, said %s", err, out)
	}
	if info, err := os.Stat(h.Gate()); err != nil || info.Mode().Perm() != 0 {
		t.Errorf("the gate is not as it was: %v", err)
	}
	if exists(h.Socket()) {
		t.Error("it served")
	}
}

// asNobody makes a command run as the user nobody, who is given the world.
func (w *world) asNobody(cmd *exec.Cmd) *exec.Cmd {
	w.t.Helper()
	top := filepath.Dir(w.runtime)
	exe, err := os.ReadFile(cmd.Path)
	if err == nil {
		err = os.WriteFile(top+"/test", exe, 0o755)
	}
	if err == nil {
		err = filepath.WalkDir(top, func(path string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, 65534, 65534))
		})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	cmd.Path, cmd.Dir = top+"/test", "/"
	delete(w.env, BindVar)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return cmd
}

func TestServingThatFailsEndsTheDaemon(t *testing.T) {
	w := newWorld(t)
	tn := tenureIn(t, w)
	failed := make(chan error, 1)
	tn.end = func(err error) { failed <- err }
	tn.socket.UnixListener.Close() // as when the system takes it away
	if _, fault := errors.AsType[*faultError](<-failed); !fault {
		t.Error("the end is no fault")
	}
}

func TestModesDoNotFollowTheUmask(t *testing.T) {
	for _, umask := range []string{"000", "077"} {
		t.Run(umask, func(t *testing.T) {
			w := newWorld(t)
			c := w.start("serve")
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			c.Exe, c.Args = filepath.Dir(w.runtime)+"/kaval", []string{w.root}
			script(t, c.Exe, "umask "+umask+"; exec "+exe+` "$1"`)
			hello, err := Start(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer end(t, hello)
			err = filepath.WalkDir(w.home().Dir, func(path string, e os.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := e.Info()
				if err == nil && info.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s has mode %v", path, info.Mode())
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestIgnoredSignalsAreNotPassedOn(t *testing.T) {
	w := newWorld(t)
	c := w.start("serve")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.Exe, c.Args = filepath.Dir(w.runtime)+"/kaval", []string{w.root}
	script(t, c.Exe, "trap '' HUP INT QUIT TSTP TTIN TTOU CONT USR1 PIPE CHLD ALRM; exec "+exe+` "$1"`)
	hello, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer end(t, hello)
	resp, err := HTTPClient(Unix(hello.Socket)).Get("http://kaval/about")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got aboutProcess
	if err := ReadJSON(resp.Body, &got); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(strings.TrimSpace(got.ChildIgnores), "\t"+strings.Repeat("0", 16)) {
		t.Errorf("a program that it starts has %q", got.ChildIgnores)
	}
}
