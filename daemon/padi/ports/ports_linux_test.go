package ports

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kolu/daemon/padi"
)

// TestMain makes the test binary a program that listens, when it is asked to be one: on each address of LISTEN, until its input ends. With
// AWAY it first starts itself anew in a session of its own and leaves.
func TestMain(m *testing.M) {
	addrs := os.Getenv("LISTEN")
	switch {
	case addrs == "":
		os.Exit(m.Run())
	case os.Getenv("AWAY") != "":
		again := exec.Command(os.Args[0])
		again.Env = append(os.Environ(), "AWAY=")
		again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
		again.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := again.Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	for addr := range strings.SplitSeq(addrs, ",") {
		network := "tcp4"
		if strings.HasPrefix(addr, "[") {
			network = "tcp6"
		}
		l, err := net.Listen(network, addr)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(l.Addr().(*net.TCPAddr).Port)
	}
	os.Stdin.Read(make([]byte, 1))
}

// program is one that listens, at the root of a session.
type program struct {
	pid   int
	ports []int
	end   func()
}

func start(t *testing.T, environ []string, addrs ...string) program {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", os.Args[0]+"; read x") // the program is a child of the root
	cmd.Env = append(environ, "LISTEN="+strings.Join(addrs, ","))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	p := program{pid: cmd.Process.Pid, end: func() {
		if !ended {
			ended = true
			in.Close()
			cmd.Wait()
		}
	}}
	t.Cleanup(p.end)
	lines := bufio.NewScanner(out)
	for range addrs {
		lines.Scan()
		port, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("the program says %q", lines.Text())
		}
		p.ports = append(p.ports, port)
	}
	return p
}

func scan(t *testing.T, s *Scanner, terminals ...Terminal) map[padi.TerminalID][]padi.Port {
	t.Helper()
	found, err := s.Scan(terminals)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func numbers(list []padi.Port) []int {
	out := []int{}
	for _, p := range list {
		out = append(out, p.Port)
	}
	return out
}

func TestPortsOfATerminal(t *testing.T) {
	a := start(t, nil, "127.0.0.1:0", "[::1]:0", "0.0.0.0:0")
	b := start(t, nil, "127.0.0.1:0")
	got := scan(t, New(), Terminal{"a", a.pid}, Terminal{"b", b.pid}, Terminal{"quiet", os.Getpid()})
	name := filepath.Base(os.Args[0])
	name = name[:min(len(name), 15)]
	want := map[padi.TerminalID][]padi.Port{
		"a": sorted([]padi.Port{
			{Port: a.ports[0], Family: "ipv4", Scope: "loopback", Address: "127.0.0.1", Process: name},
			{Port: a.ports[1], Family: "ipv6", Scope: "loopback", Address: "::1", Process: name},
			{Port: a.ports[2], Family: "ipv4", Scope: "any", Address: "0.0.0.0", Process: name},
		}),
		"b": {{Port: b.ports[0], Family: "ipv4", Scope: "loopback", Address: "127.0.0.1", Process: name}},
	}
	delete(got, "quiet") // it has whatever this test's own children have
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(padi.Port{}, "PID")); diff != "" {
		t.Error(diff)
	}
	if pid := got["b"][0].PID; pid == b.pid || pid < 2 {
		t.Errorf("%d listens, under %d", pid, b.pid)
	}
}

// A server that left the terminal's session and its parent is the terminal's all the same.
func TestPortsOfADaemon(t *testing.T) {
	away := start(t, []string{"AWAY=1", "KAVAL_TERMINAL_ID=left"}, "127.0.0.1:0")
	stranger := start(t, []string{"AWAY=1", "KAVAL_TERMINAL_ID=other"}, "127.0.0.1:0")
	got := scan(t, New(), Terminal{"left", away.pid}, Terminal{"c", 1})
	if !cmp.Equal(numbers(got["left"]), away.ports) || len(got["c"]) != 0 {
		t.Errorf("%+v, want %v, and %v is nobody's", got, away.ports, stranger.ports)
	}
}

// What is known is told again by reading two files, and what changed is seen.
func TestPortsComeAndGo(t *testing.T) {
	s := New()
	a := start(t, nil, "127.0.0.1:0")
	root := Terminal{"a", a.pid}
	first := scan(t, s, root)
	for inode, o := range s.owners {
		if o.terminal == "a" {
			o.name = "remembered" // a look that looks at processes again would have the real name
			s.owners[inode] = o
		}
	}
	if again := scan(t, s, root); again["a"][0].Process != "remembered" || again["a"][0].Port != first["a"][0].Port {
		t.Errorf("%+v then %+v", first, again)
	}
	b := start(t, nil, "127.0.0.1:0")
	if got := scan(t, s, root, Terminal{"b", b.pid}); !cmp.Equal(numbers(got["b"]), b.ports) || !cmp.Equal(numbers(got["a"]), a.ports) {
		t.Errorf("with a second: %+v", got)
	}
	a.end()
	for deadline := time.Now().Add(60 * time.Second); ; {
		got := scan(t, s, root, Terminal{"b", b.pid})
		if len(got["a"]) == 0 && len(got["b"]) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after its end: %+v", got)
		}
	}
	if got := scan(t, s); len(got) != 0 {
		t.Errorf("of no terminal: %+v", got)
	}
}

func TestKernelTables(t *testing.T) {
	for line, want := range map[string]string{
		"0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000 0 42 1 0 100 0 0 10 0": "127.0.0.1 8080 loopback",
		"1: 00000000:0016 00000000:0000 0A 0:0 0:0 0 0 0 42":                                                  "0.0.0.0 22 any",
		"2: 0101A8C0:0050 00000000:0000 0A 0:0 0:0 0 0 0 42":                                                  "192.168.1.1 80 interface",
		"3: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 42":  "::1 8080 loopback",
		"4: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 42":  "127.0.0.1 8080 loopback",
		"5: 0100007F:1F90 0100007F:A2B4 01 0:0 0:0 0 0 0 42":                                                  "", // connected
		"6: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 0":                                                   "", // on its way out
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode":    "",
		"7: 0100007:1F90 0:0 0A 0:0 0:0 0 0 0 42":                                                             "", "8: 0100007F 0:0 0A 0:0 0:0 0 0 0 42": "", "9: 0100007F:1F90 0:0 0A": "",
	} {
		sock, ok := readSocket(line, "ipv4")
		got := ""
		if ok {
			got = fmt.Sprintf("%s %d %s", sock.port.Address, sock.port.Port, sock.port.Scope)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// Both ways of asking the kernel say the same of the sockets that stay.
func TestNetlinkSaysWhatTheTablesSay(t *testing.T) {
	p := start(t, nil, "127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0")
	told, err := asked()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("this machine does not answer: %v", err)
		}
		t.Skipf("this machine does not answer: %v", err)
	}
	shown, err := listening()
	if err != nil {
		t.Fatal(err)
	}
	mine := func(all []socket) map[int]socket {
		of := map[int]socket{}
		for _, s := range all {
			if slices.Contains(p.ports, s.port.Port) {
				of[s.port.Port] = s
			}
		}
		return of
	}
	a, b := mine(told), mine(shown)
	if len(a) != len(p.ports) || !maps.Equal(a, b) {
		t.Errorf("netlink says %+v, the tables %+v", a, b)
	}
}

func BenchmarkScan(b *testing.B) {
	s := New()
	terminals := []Terminal{{"a", os.Getpid()}}
	b.Run("nothing new", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Scan(terminals); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("all anew", func(b *testing.B) {
		for b.Loop() {
			if _, err := New().Scan(terminals); err != nil {
				b.Fatal(err)
			}
		}
	})
}
