package vmtests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"kolu/daemon/kaval/vt"
)

// TestChaos cuts the link to a host every five seconds, each time in another way and once for long, under four attaches, a watch,
// a wait and a driver that sends numbered lines. Every line arrives once and in order, every attach ends on the screen that
// the host has, watch on its roster, the wait on what it waited for, and nothing stays behind on either machine but the daemons.
// KOLU_CHAOS is how long it goes on, such as 5m (make chaos); without it, a short form.
func TestChaos(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	span, long := 35*time.Second, 8*time.Second
	if v := os.Getenv("KOLU_CHAOS"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			t.Fatalf("KOLU_CHAOS: %v", err)
		}
		span, long = d, 60*time.Second
	}
	ch := &chaos{t: t, b: b, c: newClient(t), host: s.host(t, "nonix", 0)}
	defer func() {
		for _, id := range []string{ch.lines, ch.noisy} {
			ch.c.run("kolu", "kill", ch.host+"/"+id)
		}
	}()
	ch.begin()
	cuts := ch.cut(span, long)
	lines := ch.finish()
	t.Logf("%s: %d cuts, %d lines, %d terminals came and went", span, cuts, lines, ch.shortLived.Load())
	if lines < 20 {
		t.Errorf("only %d lines went over: the link was hardly ever used", lines)
	}
	ch.sameScreens()
	ch.sameRoster()
	ch.leave()
}

// chaos is one run of TestChaos.
type chaos struct {
	t    *testing.T
	b    *testbed
	c    *client
	host string

	log      string // on the host: what the numbered lines were when they arrived
	lines    string // the terminal that the driver sends to
	noisy    string // one that always draws
	before   []string
	attached []*attached
	watch    *watching
	wait     *exec.Cmd
	waited   bytes.Buffer
	driver   *mcpDriver

	stop       chan struct{} // ends the driver
	work       sync.WaitGroup
	sent       atomic.Int64
	shortLived atomic.Int64
}

// reader is the program that takes the numbered lines, and drawer one whose screen changes all the time until it may end.
const (
	reader = `stty -echo; echo ready; while read -r line; do echo "$line" >>%s; echo "took $line"; done`
	drawer = `i=0; while [ ! -e %[1]s.stop ]; do i=$((i+1)); printf "\033[%%d;%%dH\033[3%%dm%%d 漢字 \033[0m" $((i%%24+1)) $((i*7%%70+1)) $((i%%8)) $i; sleep 0.02; done; printf "\033[24;1Hdrawn"; cat`
)

func (ch *chaos) begin() {
	ch.log = fmt.Sprintf("/tmp/chaos-%d", time.Now().UnixNano())
	at := []string{"create", "--toplevel", "--host", ch.host, "--", "sh", "-c"}
	ch.lines = ch.c.ok("padi-tui", append(at, fmt.Sprintf(reader, ch.log))...)
	ch.noisy = ch.c.ok("padi-tui", append(at, fmt.Sprintf(drawer, ch.log))...)
	ch.c.ok("kaval-tui", "wait", "--host", ch.host, ch.lines, "--until", "idle:200", "--timeout", "30000")
	until(ch.t, "the fronts of the verbs before have left", func() bool { return len(ch.fronts()) == 0 })
	ch.before = ch.processes()
	for _, transport := range []string{"master", "native"} {
		ch.attach(ch.lines, transport)
		ch.attach(ch.noisy, transport)
	}
	ch.watch = ch.startWatch()
	ch.wait = ch.c.command(context.Background(), "kaval-tui", "wait", "--host", ch.host, ch.lines, "--until", "match:took the end", "--timeout", "1200000", "--json")
	ch.wait.Stdout, ch.wait.Stderr = &ch.waited, &ch.waited
	if err := ch.wait.Start(); err != nil {
		ch.t.Fatal(err)
	}
	ch.driver = ch.startDriver()
	ch.stop = make(chan struct{})
	ch.work.Go(ch.drive)
}

// attached is one attach on a terminal of 80 by 24, and the screen that it draws.
type attached struct {
	id, transport string
	cmd           *exec.Cmd
	keys          *os.File
	ended         chan error

	mu     sync.Mutex
	screen *vt.Terminal
	raw    bytes.Buffer
}

func (ch *chaos) attach(id, transport string) {
	ch.t.Helper()
	a := &attached{id: id, transport: transport, ended: make(chan error, 1), screen: vt.New(vt.Options{Cols: 80, Rows: 24})}
	a.cmd = ch.c.command(context.Background(), "kaval-tui", "attach", "--host", ch.host, "--ssh", transport, id)
	var err error
	if a.keys, err = pty.StartWithSize(a.cmd, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		ch.t.Fatal(err)
	}
	go func() { // ends with the attach, which leave waits for
		_, _ = io.Copy(a, a.keys) // a pty ends with an error
		a.ended <- a.cmd.Wait()
	}()
	ch.attached = append(ch.attached, a)
	until(ch.t, "attach by "+transport+" draws", func() bool { return a.text() != "" && strings.Contains(a.all(), "snapshot restored") })
}

func (a *attached) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.raw.Write(p)
	return a.screen.Write(p)
}

func (a *attached) text() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.TrimSpace(a.screen.Text(vt.Extent{Kind: vt.ExtentViewport}))
}

func (a *attached) all() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.raw.String()
}

// watching is a watch whose events are folded into the roster they lead to.
type watching struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  chan struct{}

	mu   sync.Mutex
	live map[string]bool
}

func (ch *chaos) startWatch() *watching {
	ch.t.Helper()
	w := &watching{ended: make(chan struct{}), live: map[string]bool{}}
	w.cmd = ch.c.command(context.Background(), "padi-tui", "watch", "--host", ch.host, "--json")
	w.cmd.Stderr = &w.stderr
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		ch.t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		ch.t.Fatal(err)
	}
	go func() { // ends with the watch, which leave waits for
		defer close(w.ended)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			w.take(scan.Bytes())
		}
	}()
	return w
}

func (w *watching) take(line []byte) {
	var ev struct {
		Kind, ID string
		Live     bool
	}
	if json.Unmarshal(line, &ev) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch ev.Kind {
	case "terminal":
		w.live[ev.ID] = ev.Live
	case "removed":
		delete(w.live, ev.ID)
	}
}

func (w *watching) roster() (ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range maps.Keys(w.live) {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// mcpDriver is an agent that drives by `kolu mcp`.
type mcpDriver struct {
	session *mcp.ClientSession
	stderr  *syncBuffer
}

// syncBuffer may be written while it is read.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (ch *chaos) startDriver() *mcpDriver {
	ch.t.Helper()
	d := &mcpDriver{stderr: &syncBuffer{}}
	cmd := ch.c.command(context.Background(), "kolu", "mcp", "--host", ch.host)
	cmd.Stderr = d.stderr
	session, err := mcp.NewClient(&mcp.Implementation{Name: "vm-tests", Version: "1"}, nil).
		Connect(context.Background(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		ch.t.Fatalf("connect: %v\n%s", err, d.stderr)
	}
	d.session = session
	return d
}

// call calls a tool and gives its text.
func (d *mcpDriver) call(tool string, args map[string]any) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	res, err := d.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", err
	}
	text := ""
	if len(res.Content) > 0 {
		if c, ok := res.Content[0].(*mcp.TextContent); ok {
			text = c.Text
		}
	}
	if res.IsError {
		return "", fmt.Errorf("%s: %s", tool, text)
	}
	return text, nil
}

// drive sends numbered lines until it is told to stop, and makes and ends a terminal now and then.
func (ch *chaos) drive() {
	for n := int64(1); ; n++ {
		select {
		case <-ch.stop:
			ch.line("the end")
			return
		default:
		}
		if !ch.line(fmt.Sprintf("line %d", n)) {
			return
		}
		ch.sent.Store(n)
		if n%50 == 1 && !ch.comeAndGo() {
			return
		}
	}
}

func (ch *chaos) line(text string) bool {
	for _, args := range []map[string]any{{"id": ch.lines, "text": text}, {"id": ch.lines, "key": "Enter"}} {
		if _, err := ch.driver.call("lifecycle_sendInput", args); err != nil {
			ch.t.Errorf("send %q: %v\n%s", text, err, ch.driver.stderr)
			return false
		}
	}
	return true
}

func (ch *chaos) comeAndGo() bool {
	text, err := ch.driver.call("lifecycle_create", map[string]any{"intent": "short-lived"})
	var made struct{ ID string }
	if err == nil {
		err = json.Unmarshal([]byte(text), &made)
	}
	if err == nil {
		_, err = ch.driver.call("lifecycle_kill", map[string]any{"id": made.ID})
	}
	if err != nil {
		ch.t.Errorf("a terminal that comes and goes: %v\n%s", err, ch.driver.stderr)
		return false
	}
	ch.shortLived.Add(1)
	return true
}

// cut cuts the link every five seconds for as long as span, once for as long as long, and leaves it healed.
func (ch *chaos) cut(span, long time.Duration) (cuts int) {
	hurt := func(verb, undo string, d time.Duration) func() {
		return func() {
			ch.b.do(ch.t, verb, ch.host)
			if undo != "" {
				<-time.After(d)
				ch.b.do(ch.t, undo, ch.host)
			}
		}
	}
	ways := []func(){
		hurt("sever", "", 0), hurt("cut", "heal", 2*time.Second), hurt("pause", "resume", 2*time.Second), hurt("sever", "", 0),
		hurt("unplug", "heal", 2*time.Second), ch.killMasters,
	}
	start, longDone := time.Now(), false
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for time.Since(start) < span {
		<-tick.C
		if !longDone && time.Since(start) > span/3 {
			longDone = true
			hurt("cut", "heal", long)()
		} else {
			ways[cuts%len(ways)]()
		}
		cuts++
	}
	return cuts
}

// killMasters ends the ssh programs on this side.
func (ch *chaos) killMasters() {
	for _, pid := range ch.c.processes() {
		if name, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); filepath.Base(name) == "ssh" {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// slow is how long a session may need for its next line: a minute between two tries, and what is left of the last one.
const slow = 90 * time.Second

func (ch *chaos) finish() (lines int64) {
	close(ch.stop)
	ended := make(chan struct{})
	go func() { ch.work.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(slow):
		ch.t.Fatalf("the driver has sent %d lines and its next one does not arrive\n%s", ch.sent.Load(), ch.driver.stderr)
	}
	lines = ch.sent.Load()
	var want strings.Builder
	for n := range lines {
		fmt.Fprintf(&want, "line %d\n", n+1)
	}
	want.WriteString("the end\n")
	until(ch.t, "the last line was read", func() bool { return strings.HasSuffix(ch.b.in(ch.t, ch.host, "cat "+ch.log), "the end\n") })
	if got := ch.b.in(ch.t, ch.host, "cat "+ch.log); got != want.String() {
		ch.t.Errorf("%d lines were sent, what arrived is\n%s", lines, firstDifference(got, want.String()))
	}
	return lines
}

// firstDifference shows where two texts part.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d: got %q, want %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// sameScreens checks that each attach shows what the host has.
func (ch *chaos) sameScreens() {
	ch.b.in(ch.t, ch.host, "touch "+ch.log+".stop")
	want := map[string]string{}
	for id, mark := range map[string]string{ch.lines: "took the end", ch.noisy: "drawn"} {
		untilWithin(ch.t, slow, mark+" on the host's screen", func() bool {
			r := ch.c.run("kaval-tui", "snapshot", "--host", ch.host, id, "--viewport")
			want[id] = strings.TrimSpace(r.stdout)
			return r.code == 0 && strings.Contains(r.stdout, mark)
		})
	}
	for _, a := range ch.attached {
		if !untilWithin(ch.t, slow, fmt.Sprintf("attach to %s by %s shows what the host has", a.id[:8], a.transport), func() bool { return trimLines(a.text()) == trimLines(want[a.id]) }) {
			ch.t.Errorf("it shows\n%s\nthe host has\n%s", a.text(), want[a.id])
		}
		n := strings.Count(a.all(), "snapshot restored")
		ch.t.Logf("attach by %s drew %d bytes and %d snapshots", a.transport, len(a.all()), n)
	}
}

// trimLines takes the blanks at the ends of lines away.
func trimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

func (ch *chaos) sameRoster() {
	untilWithin(ch.t, slow, "watch ends on the roster of the host", func() bool {
		var want []string
		for _, row := range rows(ch.t, ch.c.run("padi-tui", "status", "--host", ch.host, "--json")) {
			want = append(want, row.ID)
		}
		slices.Sort(want)
		return slices.Equal(ch.watch.roster(), want)
	})
	waited := make(chan error, 1)
	go func() { waited <- ch.wait.Wait() }()
	select {
	case err := <-waited:
		if err != nil {
			ch.t.Errorf("wait: %v\n%s", err, ch.waited.String())
		}
	case <-time.After(slow):
		ch.t.Errorf("wait goes on")
	}
}

// leave ends every client and looks for what is left.
func (ch *chaos) leave() {
	for _, a := range ch.attached {
		if _, err := io.WriteString(a.keys, "\r~."); err != nil {
			ch.t.Errorf("type: %v", err)
		}
		select {
		case err := <-a.ended:
			if err != nil {
				ch.t.Errorf("attach by %s ended with %v", a.transport, err)
			}
		case <-time.After(patience):
			ch.t.Errorf("attach by %s does not leave", a.transport)
		}
		a.keys.Close()
	}
	if err := ch.watch.cmd.Process.Signal(syscall.SIGINT); err != nil {
		ch.t.Error(err)
	}
	<-ch.watch.ended
	_ = ch.watch.cmd.Wait() // its exit code is that of an interrupt
	if err := ch.driver.session.Close(); err != nil {
		ch.t.Logf("kolu mcp ended with %v", err)
	}
	k := &killer{t: ch.t, b: ch.b, c: ch.c, alias: ch.host, host: ch.host, transport: "master"}
	if left := k.left(); left != "" {
		ch.t.Errorf("left behind: %s", left)
	}
	untilWithin(ch.t, slow, "the host is as it was", func() bool { return slices.Equal(ch.processes(), ch.before) })
	ch.b.in(ch.t, ch.host, "rm -f "+ch.log+" "+ch.log+".stop")
}

// processes are the names of all that runs of ours on the host, the terminals' own programs apart.
func (ch *chaos) processes() (names []string) {
	for line := range strings.Lines(ch.b.in(ch.t, ch.host, `for p in /proc/[0-9]*; do readlink $p/exe 2>/dev/null | grep -q /kolu || continue; tr "\0" " " <$p/cmdline; echo; done; ls -d /tmp/padi-*/* /tmp/kaval-*/* 2>/dev/null || true`)) {
		names = append(names, strings.TrimSpace(line))
	}
	slices.Sort(names)
	return names
}

func (ch *chaos) fronts() []string {
	return slices.DeleteFunc(ch.processes(), func(name string) bool { return !strings.Contains(name, "--stdio") })
}

// untilWithin is until with another deadline.
func untilWithin(t *testing.T, most time.Duration, what string, done func() bool) bool {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(most); time.Now().Before(deadline); <-tick.C {
		if done() {
			return true
		}
	}
	t.Errorf("not within %v: %s", most, what)
	return false
}
