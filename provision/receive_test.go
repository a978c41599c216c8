package provision

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kolu/internal/fault"
)

// hardToPack is a salt that gzip makes nothing of.
func hardToPack() string {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// until waits for what another process does without a word.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatal("not within a minute: " + what)
}

// cutUpload is a host with an upload that was cut after share of the bytes, and its part.
type cutUpload struct {
	*testHost
	b    Build
	f    Facts
	part string
}

func cutAt(t *testing.T, share int64, tools string, cut func(r *killing, cancel func())) cutUpload {
	t.Helper()
	b := testBuild(t, hardToPack(), 6<<20)
	h := newHost(t)
	f := withoutNix(h.probe(t, b))
	f.Places, f.Tools = f.Places[:1], strings.Fields(tools)
	h.env = append(h.env, "PATH="+tinyPath(t, f.Tools...))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &killing{testHost: h}
	_, err := Install(ctx, r, f, b, func(s Step) {
		if s.Stage == StageSend && s.Done >= b.Size*share/100 {
			cut(r, cancel)
		}
	})
	if !fault.Is(err, fault.Interrupted) {
		t.Fatalf("got %v", err)
	}
	return cutUpload{h, b, f, filepath.Join(f.Places[0].Dir, ".part-"+b.ID())}
}

func byClient(_ *killing, cancel func()) { cancel() }
func byHost(r *killing, _ func())        { r.last.cmd.Process.Kill() }

// waitPart waits until the far shell has put away what came.
func (c cutUpload) waitPart(t *testing.T) {
	t.Helper()
	until(t, "what came of the cut upload is kept", func() bool { _, err := os.Stat(c.part); return err == nil })
}

// TestCutUploadIsResumed cuts uploads in the middle, from either side, and counts the bytes of the next try.
func TestCutUploadIsResumed(t *testing.T) {
	for name, tt := range map[string]struct {
		tools string
		cut   func(*killing, func())
	}{
		"cut, as it is":      {"sha256sum cksum", byClient},
		"cut, packed":        {"gzip sha256sum cksum", byClient},
		"cut, cksum alone":   {"cksum", byClient},
		"host's shell ended": {"sha256sum cksum", byHost},
	} {
		t.Run(name, func(t *testing.T) {
			c := cutAt(t, 70, tt.tools, tt.cut)
			if name != "host's shell ended" {
				c.waitPart(t)
			}
			if s := c.run(t, catalogOf(c.b).Line("padi", testNonce)); s.facts["front"] != "" {
				t.Fatal("a part was started")
			}
			first := Step{Done: -1}
			p, err := Install(t.Context(), c, c.f, c.b, func(s Step) {
				if s.Stage == StageSend && first.Done < 0 {
					first = s
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if p.Sent > c.b.Size/2 || first.Done < c.b.Size/2 {
				t.Errorf("the next try sent %d of %d bytes, and began with %+v", p.Sent, c.b.Size, first)
			}
			c.mustStart(t, c.b, p)
			onlyBuild(t, c.testHost, c.b)
		})
	}
}

// TestDamagedPartIsNotUsed has a part whose bytes are not ours.
func TestDamagedPartIsNotUsed(t *testing.T) {
	c := cutAt(t, 70, "sha256sum cksum", byClient)
	c.waitPart(t)
	f, err := os.OpenFile(c.part, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("other bytes"), 4096); err != nil {
		t.Fatal(err)
	}
	f.Close()
	p, err := Install(t.Context(), c, c.f, c.b, nil)
	if err != nil || p.Sent < c.b.Size {
		t.Fatalf("sent %d of %d bytes, %v", p.Sent, c.b.Size, err)
	}
	c.mustStart(t, c.b, p)
	onlyBuild(t, c.testHost, c.b)
}

// TestPartGoesToOneOfSeveral has clients that find one part at once: one goes on with it, the others begin anew, all succeed.
func TestPartGoesToOneOfSeveral(t *testing.T) {
	c := cutAt(t, 70, "sha256sum cksum", byClient)
	c.waitPart(t)
	type outcome struct {
		sent int64
		err  error
	}
	got := make(chan outcome)
	for range 4 {
		go func() {
			p, err := Install(t.Context(), c, c.f, c.b, nil)
			got <- outcome{p.Sent, err}
		}()
	}
	quick := 0
	for range 4 {
		o := <-got
		if o.err != nil {
			t.Error(o.err)
		}
		if o.sent < c.b.Size/2 {
			quick++
		}
	}
	if quick != 1 {
		t.Errorf("%d clients went on with the part, want 1", quick)
	}
	c.mustStart(t, c.b, Placed{Bin: filepath.Join(c.f.Places[0].Dir, c.b.ID(), "bin")})
	onlyBuild(t, c.testHost, c.b)
}

// TestOldPartsGo has parts of builds that nobody brings any more.
func TestOldPartsGo(t *testing.T) {
	c := cutAt(t, 70, "sha256sum cksum", byClient)
	c.waitPart(t)
	old, recent := filepath.Join(filepath.Dir(c.part), ".part-old"), filepath.Join(filepath.Dir(c.part), ".part-recent")
	for file, age := range map[string]time.Duration{old: 50 * time.Hour, recent: time.Minute} {
		at := time.Now().Add(-age)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Install(t.Context(), c, c.f, c.b, nil); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]bool{old: false, recent: true, c.part: false} {
		if _, err := os.Stat(file); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", file, err == nil, want)
		}
	}
	if got := ParseForgotten(c.run(t, Forget(testNonce, true)).facts); len(got.Removed) != 2 {
		t.Errorf("forget removed %q", got.Removed)
	}
}

// TestServerThatNobodyFeedsEnds has the server of a client that was killed: nothing comes, and no end of stdin either.
func TestServerThatNobodyFeedsEnds(t *testing.T) {
	h := nixHost(t)
	f := h.nixFacts(t, testBuild(t, "unfed", 0))
	in := &installer{run: h, facts: f, patience: usualPatience}
	if in.idle <= in.verify {
		t.Errorf("a server ends after %s, and a client may be silent for %s", in.idle, in.verify)
	}
	in.idle = 2 * glance
	p, err := h.Start(t.Context(), in.serveLine())
	if err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(p.Stdout()); err != nil || len(said) > 0 {
		t.Errorf("%q, %v", said, err)
	}
	if err := p.Wait(); err == nil {
		t.Error("it ended as if all had come")
	}
	p.Close()
}

// TestServerThatIsFedLives has a server that gets a little each second, for longer than it may be left alone.
func TestServerThatIsFedLives(t *testing.T) {
	h := newHost(t)
	in := &installer{run: h, patience: usualPatience}
	in.idle = 2 * glance
	p, err := h.Start(t.Context(), in.serving("cat"))
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		time.Sleep(glance / 2) // the watchdog looks at a real clock
		if _, err := io.WriteString(p.Stdin(), "x"); err != nil {
			t.Fatal(err)
		}
	}
	p.Stdin().Close()
	if said, err := io.ReadAll(p.Stdout()); err != nil || string(said) != "xxxxxxxxxx" {
		t.Errorf("%q, %v", said, err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}
