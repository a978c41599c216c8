// Mux measures any PTY daemon by the commands that a script would run, side by side: docs/performance.md has a run of it.
//
//	go run ./bench/mux -drivers tmux,dtach,abduco,kaval -cases create,echo,agent,cat,stall,rss,scroll,many
//	go run ./bench/mux time -n 50 -- CMD...        wall time of any command
//	go run ./bench/mux par -n 100 -p 50 -- CMD...  the same, p at a time, with failures counted
//	go run ./bench/mux echo -n 30 -- CMD...        key press to echo through any command that runs cat on a PTY
//	go run ./bench/mux first -needle X -- CMD...   start to the first sight of X on a PTY
//
// A driver whose program is not on PATH is left out; kaval and kaval-tui are named by $KAVAL and $KAVAL_TUI.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"
)

var (
	n      = flag.Int("n", 50, "repetitions")
	mb     = flag.Int("mb", 100, "megabytes for cat")
	lines  = flag.Int("lines", 100000, "scrollback lines for scroll")
	maxT   = flag.Int("max", 1000, "terminals for many")
	names  = flag.String("drivers", "tmux,screen,dtach,abduco", "")
	cases  = flag.String("cases", "create,rss,echo,agent,cat,stall,scroll", "")
	root   = flag.String("dir", "", "scratch directory (default a temporary one)")
	stallS = flag.Int("stall", 20, "seconds to wait for a stalled client's terminal")
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "time", "par":
			timeCmd(os.Args[1], os.Args[2:])
			return
		case "echo", "first":
			ptyCmd(os.Args[1], os.Args[2:])
			return
		}
	}
	flag.Parse()
	dir := *root
	if dir == "" {
		dir, _ = os.MkdirTemp("", "mb")
		defer os.RemoveAll(dir)
	}
	for _, c := range strings.Split(*cases, ",") {
		f := map[string]func(Driver, string){"create": caseCreate, "rss": caseRSS, "echo": caseEcho, "agent": caseAgent,
			"cat": caseCat, "stall": caseStall, "scroll": caseScroll, "many": caseMany}[c]
		if f == nil {
			fmt.Fprintln(os.Stderr, "unknown case", c)
			os.Exit(1)
		}
		if c == "create" || c == "cat" || c == "echo" {
			raw(c, dir)
		}
		for i, d := range drivers(*names) {
			dd := fmt.Sprintf("%s/%s%s%d", dir, c, d.Name(), i)
			os.MkdirAll(dd, 0o700)
			h := 10000
			if c == "scroll" {
				h = *lines * 2
			}
			if err := d.Setup(dd, h); err != nil {
				fmt.Printf("%-7s %-7s SETUP FAILED %v\n", c, d.Name(), err)
				continue
			}
			f(d, dd)
			d.Teardown()
		}
	}
}

func p(c string, d string, format string, a ...any) {
	fmt.Printf("%-7s %-7s %s\n", c, d, fmt.Sprintf(format, a...))
}

// the floor: the same work on a bare PTY in this process, with no multiplexer
func raw(c, dir string) {
	switch c {
	case "create":
		ff := mkfifo(dir + "/rf")
		var up stats
		for i := 0; i < *n; i++ {
			t := time.Now()
			cl, err := attach(nil, []string{"sh", "-c", "echo r > " + dir + "/rf; exec cat"}, true)
			if err != nil {
				panic(err)
			}
			_, tt := waitLine(ff, 5*time.Second)
			up = append(up, ms(tt.Sub(t)))
			cl.close()
		}
		p(c, "raw-pty", "child-up-ms %v", up)
	case "echo":
		cl, _ := attach(nil, []string{"cat"}, true)
		time.Sleep(100 * time.Millisecond)
		p(c, "raw-pty", "echo-ms %v", echo(cl))
		cl.close()
	case "cat":
		f := gen(dir)
		cl, _ := attach(nil, []string{"sh", "-c", "read x; cat " + f + "; echo EN''D_OF_CAT"}, true)
		time.Sleep(100 * time.Millisecond)
		t := time.Now()
		cl.f.WriteString("\n")
		tt, ok := cl.await("END_OF_CAT", 120*time.Second)
		p(c, "raw-pty", "%.1f MB/s ok=%v", float64(*mb)/tt.Sub(t).Seconds(), ok)
		cl.close()
	}
	_ = pty.Start
}

func caseCreate(d Driver, dir string) {
	ff := mkfifo(dir + "/f")
	var cli, up stats
	for i := 0; i < *n; i++ {
		t := time.Now()
		id, err := d.Create(fmt.Sprintf("c%d", i), []string{"sh", "-c", "echo r > " + dir + "/f; exec cat"})
		cli = append(cli, ms(time.Since(t)))
		if err != nil {
			p("create", d.Name(), "FAILED %v", err)
			return
		}
		l, tt := waitLine(ff, 5*time.Second)
		if l == "" {
			p("create", d.Name(), "child of %s never started", id)
			return
		}
		up = append(up, ms(tt.Sub(t)))
	}
	p("create", d.Name(), "cli-ms %v | child-up-ms p50=%.2f p95=%.2f", cli, up.q(.5), up.q(.95))
}

func caseRSS(d Driver, dir string) {
	at := []int{1, 10, 100}
	var base int
	made := 0
	for _, k := range at {
		for made < k {
			if _, err := d.Create(fmt.Sprintf("r%d", made), []string{"sleep", "100000"}); err != nil {
				p("rss", d.Name(), "FAILED at %d: %v", made, err)
				return
			}
			made++
		}
		time.Sleep(300 * time.Millisecond)
		pids := d.DaemonPids()
		pss, priv, rss := mem(pids)
		if k == 1 {
			base = pss
		}
		per := "-"
		if k > 1 {
			per = fmt.Sprintf("%.0f", float64(pss-base)/float64(k-1))
		}
		p("rss", d.Name(), "terminals=%d procs=%d pss=%dKiB private=%dKiB rss-sum=%dKiB per-extra-terminal=%sKiB", k, len(pids), pss, priv, rss, per)
	}
}

// key press to echo on the attached client's own PTY
func echo(c *client) stats {
	var s stats
	c.quiet(200 * time.Millisecond)
	for i := 0; i < *n*10; i++ {
		ch := string(rune('a' + i%26))
		c.reset()
		t := time.Now()
		c.f.WriteString(ch)
		tt, ok := c.await(ch, 2*time.Second)
		if !ok {
			continue
		}
		s = append(s, ms(tt.Sub(t)))
		if i%50 == 49 {
			c.f.WriteString("\r")
			c.quiet(30 * time.Millisecond)
		}
	}
	return s
}

func caseEcho(d Driver, dir string) {
	id, err := d.Create("e", []string{"cat"})
	if err != nil {
		p("echo", d.Name(), "FAILED %v", err)
		return
	}
	time.Sleep(100 * time.Millisecond)
	c, err := attach(d.Env(), d.Attach(id), true)
	if err != nil {
		p("echo", d.Name(), "FAILED %v", err)
		return
	}
	time.Sleep(500 * time.Millisecond)
	p("echo", d.Name(), "echo-ms %v", echo(c))
	c.close()
}

// what an agent pays: one `send` process, then `read the screen` processes until the text is there
func caseAgent(d Driver, dir string) {
	id, err := d.Create("a", []string{"cat"})
	if err != nil || d.Send(id, "x") == nil || d.Viewport(id) == nil {
		p("agent", d.Name(), "no send or no screen verb (%v)", err)
		return
	}
	time.Sleep(200 * time.Millisecond)
	var send, read, seen, polls stats
	for i := 0; i < *n; i++ {
		tok := fmt.Sprintf("tok%dz", i)
		t := time.Now()
		if _, err := run(d.Env(), d.Send(id, tok)...); err != nil {
			p("agent", d.Name(), "FAILED %v", err)
			return
		}
		send = append(send, ms(time.Since(t)))
		k := 0
		for {
			r := time.Now()
			o, err := run(d.Env(), d.Viewport(id)...)
			read = append(read, ms(time.Since(r)))
			k++
			if err == nil && strings.Contains(o, tok) {
				break
			}
			if k > 100 {
				p("agent", d.Name(), "never seen")
				return
			}
		}
		seen = append(seen, ms(time.Since(t)))
		polls = append(polls, float64(k))
		if i%10 == 9 {
			run(d.Env(), d.Send(id, "\r")...)
			time.Sleep(20 * time.Millisecond)
		}
	}
	p("agent", d.Name(), "send-ms %v | screen-ms p50=%.2f p95=%.2f | send+seen-ms p50=%.2f p95=%.2f | polls max=%.0f", send, read.q(.5), read.q(.95), seen.q(.5), seen.q(.95), polls.q(1))
}

func gen(dir string) string {
	f := fmt.Sprintf("%s/gen%d", dir, *mb)
	if st, err := os.Stat(f); err == nil && st.Size() >= int64(*mb)<<20 {
		return f
	}
	o, _ := os.Create(f)
	line := []byte("0123456789 the quick brown fox jumps over the lazy dog 0123456789 abcdefghijk\n")
	var blk []byte
	for len(blk) < 1<<20 {
		blk = append(blk, line...)
	}
	blk = blk[:1<<20]
	for i := 0; i < *mb; i++ {
		o.Write(blk)
	}
	o.Close()
	return f
}

func catRun(d Driver, dir, name string, mode int, to time.Duration) (sec float64, ok bool, seen int64, pss int) {
	f := gen(dir + "/..")
	g, done := mkfifo(dir+"/go"+name), mkfifo(dir+"/done"+name)
	defer g.Close()
	defer done.Close()
	id, err := d.Create(name, []string{"sh", "-c", "read x < " + dir + "/go" + name + "; cat " + f + "; echo d > " + dir + "/done" + name + "; echo EN''D_OF_CAT; exec sleep 1000"})
	if err != nil {
		return
	}
	var c *client
	if mode > 0 {
		c, err = attach(d.Env(), d.Attach(id), mode == 1)
		if err != nil {
			return
		}
		time.Sleep(400 * time.Millisecond)
	}
	t := time.Now()
	g.WriteString("go\n")
	l, tt := waitLine(done, to)
	ok = l != ""
	if ok && mode == 1 {
		tt, ok = c.await("END_OF_CAT", 20*time.Second)
	}
	sec = tt.Sub(t).Seconds()
	pss, _, _ = mem(d.DaemonPids())
	if c != nil {
		seen = c.bytes()
		c.close()
	}
	return
}

func caseCat(d Driver, dir string) {
	for i, m := range []string{"detached", "attached"} {
		s, ok, seen, pss := catRun(d, dir, "cat"+m, i, 180*time.Second)
		p("cat", d.Name(), "%s %.1f MB/s (%.2f s) ok=%v client-bytes=%d daemon-pss=%dKiB", m, float64(*mb)/s, s, ok, seen, pss)
	}
}

func caseStall(d Driver, dir string) {
	s, ok, _, pss := catRun(d, dir, "st", 2, time.Duration(*stallS)*time.Second)
	p("stall", d.Name(), "a client that never reads: program finished=%v after %.1f s, daemon-pss=%dKiB", ok, s, pss)
}

func caseScroll(d Driver, dir string) {
	if d.History("x") == nil {
		p("scroll", d.Name(), "keeps no scrollback")
		return
	}
	pids0 := d.DaemonPids()
	p0, _, _ := mem(pids0)
	done := mkfifo(dir + "/done")
	id, err := d.Create("s", []string{"sh", "-c", fmt.Sprintf("seq -f 'line %%.0f the quick brown fox jumps over the lazy dog 0123456789' %d; echo LAST''_LINE; echo d > %s/done; exec cat", *lines, dir)})
	if err != nil {
		p("scroll", d.Name(), "FAILED %v", err)
		return
	}
	if l, _ := waitLine(done, 120*time.Second); l == "" {
		p("scroll", d.Name(), "fill timed out")
		return
	}
	time.Sleep(500 * time.Millisecond)
	p1, _, _ := mem(d.DaemonPids())
	var at, vp, hi stats
	var ab int64
	var hl int
	for i := 0; i < 10; i++ {
		t := time.Now()
		c, err := attach(d.Env(), d.Attach(id), true)
		if err == nil {
			tt, ok := c.await("LAST_LINE", 10*time.Second)
			if ok {
				at = append(at, ms(tt.Sub(t)))
			}
			c.quiet(100 * time.Millisecond)
			ab = c.bytes()
			c.close()
		}
		t = time.Now()
		run(d.Env(), d.Viewport(id)...)
		vp = append(vp, ms(time.Since(t)))
		t = time.Now()
		o, _ := run(d.Env(), d.History(id)...)
		hi = append(hi, ms(time.Since(t)))
		hl = strings.Count(o, "\n")
	}
	p("scroll", d.Name(), "lines=%d mem=%dKiB (%.0f B/line) attach-ms p50=%.2f p95=%.2f bytes=%d | viewport-ms p50=%.2f | whole-history-ms p50=%.2f lines=%d", *lines, p1-p0, float64(p1-p0)*1024/float64(*lines), at.q(.5), at.q(.95), ab, vp.q(.5), hi.q(.5), hl)
}

func caseMany(d Driver, dir string) {
	marks := map[int]bool{1: true, 100: true, 250: true, 500: true, 1000: true, 1500: true, 2000: true, 3000: true, 4000: true}
	var last stats
	for i := 1; i <= *maxT; i++ {
		t := time.Now()
		_, err := d.Create(fmt.Sprintf("m%d", i), []string{"sleep", "100000"})
		if err != nil {
			p("many", d.Name(), "FAILED at terminal %d: %v", i, err)
			break
		}
		last = append(last, ms(time.Since(t)))
		if marks[i] {
			w := last
			if len(w) > 50 {
				w = w[len(w)-50:]
			}
			pids := d.DaemonPids()
			pss, _, _ := mem(pids)
			p("many", d.Name(), "terminals=%d create-ms p50=%.2f procs=%d pss=%dKiB", i, w.q(.5), len(pids), pss)
		}
	}
}

func timeCmd(mode string, args []string) {
	fs := flag.NewFlagSet(mode, flag.ExitOnError)
	n := fs.Int("n", 20, "")
	par := fs.Int("p", 1, "")
	fs.Parse(args)
	var s stats
	var mu sync.Mutex
	fails := map[string]int{}
	t0 := time.Now()
	sem := make(chan struct{}, *par)
	var wg sync.WaitGroup
	for i := 0; i < *n; i++ {
		sem <- struct{}{}
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer func() { <-sem }()
			t := time.Now()
			o, err := exec.Command(fs.Arg(0), fs.Args()[1:]...).CombinedOutput()
			d := ms(time.Since(t))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				l := strings.Split(strings.TrimSpace(string(o)), "\n")
				fails[l[len(l)-1]]++
				return
			}
			s = append(s, d)
		}()
	}
	wg.Wait()
	fmt.Printf("wall-ms %v total=%.2fs parallel=%d failed=%v  %s\n", s, time.Since(t0).Seconds(), *par, fails, strings.Join(fs.Args(), " "))
}

func ptyCmd(mode string, args []string) {
	fs := flag.NewFlagSet(mode, flag.ExitOnError)
	k := fs.Int("n", 20, "")
	needle := fs.String("needle", "READY", "")
	fs.Parse(args)
	env := []string{"TERM=xterm-256color", "TMUX="}
	if mode == "echo" {
		*n = *k
		c, err := attach(env, fs.Args(), true)
		if err != nil {
			fmt.Println("FAILED", err)
			return
		}
		time.Sleep(2 * time.Second)
		fmt.Printf("echo-ms %v  %s\n", echo(c), strings.Join(fs.Args(), " "))
		c.close()
		return
	}
	var s stats
	for i := 0; i < *k; i++ {
		t := time.Now()
		c, err := attach(env, fs.Args(), true)
		if err != nil {
			fmt.Println("FAILED", err)
			return
		}
		if tt, ok := c.await(*needle, 20*time.Second); ok {
			s = append(s, ms(tt.Sub(t)))
		}
		c.close()
	}
	fmt.Printf("first-ms %v\n", s)
}
