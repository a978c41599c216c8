package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// send tells p of five seconds of an upload, 100 steps a second.
func send(p *Progress) {
	p.Step("check", 0, 0)
	for n := range int64(500) {
		time.Sleep(10 * time.Millisecond)
		p.Step("send", (n+1)*20_000, 10_000_000)
	}
	p.Step("verify", 0, 0)
}

func TestProgressAsLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := NewProgress(&Env{Stderr: &out}, "h1")
		p.Wait("connect")
		time.Sleep(time.Second)
		synctest.Wait()
		if out.Len() > 0 {
			t.Errorf("a wait is told where it is no terminal: %q", out.String())
		}
		send(p)
		p.Clear()
		want := []string{"— h1: check", "— h1: send (10.0 MB)", "— h1: send 2.0 of 10.0 MB, 2.0 MB/s, 4s left"}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) < 6 || len(lines) > 8 || lines[0] != want[0] || lines[1] != want[1] || lines[len(lines)-1] != "— h1: verify" {
			t.Errorf("got %d lines:\n%s", len(lines), out.String())
		}
		if !strings.Contains(lines[2], "of 10.0 MB, 2.0 MB/s, 4s left") || strings.ContainsAny(out.String(), "\r\x1b") {
			t.Errorf("got %q", lines[2])
		}
	})
}

func TestProgressAsABar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := NewProgress(&Env{Stderr: &out}, "h1")
		p.width = 60
		p.Wait("connect")
		time.Sleep(99 * time.Millisecond)
		synctest.Wait()
		if got := out.String(); !strings.Contains(got, "— h1: connect …") {
			t.Errorf("after 99 ms: %q", got)
		}
		send(p)
		p.Clear()
		all := out.String()
		looks := strings.Split(all, "\r")
		if len(looks) < 40 || len(looks) > 70 {
			t.Errorf("%d looks in five seconds", len(looks))
		}
		for _, look := range looks {
			if n := len([]rune(strings.TrimSuffix(look, "\x1b[K"))); n > 59 {
				t.Errorf("a look of %d columns: %q", n, look)
			}
		}
		if strings.Contains(all, "\n") || !strings.HasSuffix(all, "\r\x1b[K") || !strings.Contains(all, "[############            ]  50% 5.0 MB of") {
			t.Errorf("got %q", all)
		}
		p.Step("send", 1, 2)
		if !strings.HasSuffix(out.String(), "\n") {
			t.Error("a bar is drawn after Clear")
		}
	})
}

func TestProgressThatIsQuickSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := NewProgress(&Env{Stderr: &out}, "h1")
		p.width = 60
		p.Wait("connect")
		time.Sleep(50 * time.Millisecond)
		p.Clear()
		time.Sleep(time.Second)
		synctest.Wait()
		if out.Len() > 0 {
			t.Errorf("got %q", out.String())
		}
	})
}

// A notice stands on a line of its own, whatever was drawn there.
func TestNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := NewProgress(&Env{Stderr: &out}, "h1")
		p.width = 60
		p.Wait("connect")
		time.Sleep(time.Second)
		synctest.Wait()
		p.Notice("open https://login.example/\x1b[31m")
		p.Notice("to go on")
		if got, want := out.String(), "\r\x1b[K— h1: open https://login.example/ [31m\n— h1: to go on\n"; !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want it to end with %q", got, want)
		}
	})
}
