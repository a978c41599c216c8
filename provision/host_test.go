package provision

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kolu/internal/fault"
)

// testHost runs lines as a host's sshd would: by a login shell, with a home and an environment of its own.
type testHost struct {
	shell []string // and its flags up to -c
	env   []string
	wrap  []string // what runs before the shell, such as unshare
	mu    sync.Mutex
	lines []string // what was run
}

func newHost(t *testing.T, env ...string) *testHost {
	t.Helper()
	home := shortDir(t)
	return &testHost{shell: []string{"/bin/sh", "-c"}, env: append([]string{
		"HOME=" + home, "USER=" + me(), "PATH=/usr/local/bin:/usr/bin:/bin",
	}, env...)}
}

func me() string {
	u, err := user.Current()
	if err != nil {
		panic(err)
	}
	return u.Username
}

func (h *testHost) home() string { return h.getenv("HOME") }

func (h *testHost) getenv(key string) string {
	for i := len(h.env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(h.env[i], key+"="); ok {
			return v
		}
	}
	return ""
}

func (h *testHost) Start(ctx context.Context, line string) (Process, error) {
	h.mu.Lock()
	h.lines = append(h.lines, line)
	h.mu.Unlock()
	argv := append(append(append([]string{}, h.wrap...), h.shell...), line)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = h.env
	cmd.Dir = "/"
	p := &testProcess{cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr = &p.stderr
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, p.out = w, out
	err = cmd.Start()
	w.Close()
	if err != nil {
		return nil, err
	}
	return p, nil
}

type testProcess struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *os.File
	stderr lockedBuffer
	once   sync.Once
	ended  chan struct{}
	err    error
}

func (p *testProcess) Stdin() io.WriteCloser { return p.in }
func (p *testProcess) Stdout() io.ReadCloser { return p.out }
func (p *testProcess) Stderr() string        { return p.stderr.String() }
func (p *testProcess) Wait() error {
	p.once.Do(func() { p.err = p.cmd.Wait(); close(p.ended) })
	return p.err
}

// Close does what sshd does when its client is gone: it closes the pipes and leaves the process alone.
func (p *testProcess) Close() error {
	p.in.Close()
	return p.out.Close()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

const testNonce = "0123456789abcdef"

// said is what a line printed, sorted out.
type said struct {
	facts  map[string]string
	marks  []string
	noise  string
	ended  bool
	stderr string
	err    error
}

// run runs a line on a host to its end.
func (h *testHost) run(t *testing.T, line string) said {
	t.Helper()
	p, err := h.Start(t.Context(), line)
	if err != nil {
		t.Fatal(err)
	}
	p.Stdin().Close()
	s := said{facts: map[string]string{}}
	lines := bufio.NewScanner(p.Stdout())
	for lines.Scan() {
		before, ours, ok := strings.Cut(lines.Text(), "@kolu "+testNonce+" ")
		s.noise += before
		if !ok {
			s.noise += "\n"
			continue
		}
		word, rest, _ := strings.Cut(ours, " ")
		switch word {
		case "fact":
			k, v, _ := strings.Cut(rest, " ")
			if old, ok := s.facts[k]; ok { // as the real reader of facts has it
				v = old + "\n" + v
			}
			s.facts[k] = v
		case "mark":
			s.marks = append(s.marks, rest)
		case "end":
			s.ended = true
		}
	}
	s.err = p.Wait()
	s.stderr = p.Stderr()
	p.Close()
	return s
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "kp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error { // a store makes its files read-only
			if err == nil && d.IsDir() {
				os.Chmod(path, 0o755)
			}
			return nil
		})
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// need gives the path of a program that a test cannot do without; in CI its lack is a failure.
func need(t *testing.T, program, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is missing: apt-get install %s", program, pkg)
		}
		t.Skipf("%s is missing: apt-get install %s", program, pkg)
	}
	return path
}

// front is a static program that stands in for kolu: it says how it was called.
var front = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("/tmp", "kpfront")
	if err != nil {
		return "", err
	}
	src := filepath.Join(dir, "main.go")
	if err := os.WriteFile(src, []byte(frontSource), 0o600); err != nil {
		return "", err
	}
	out := filepath.Join(dir, "front")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, src)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", &os.PathError{Op: "build", Path: string(said), Err: err}
	}
	return out, nil
})

const frontSource = `package main

import ("fmt"; "os"; "path/filepath"; "strings")

func main() {
	if len(os.Args) == 4 && os.Args[1] == "--stdio" {
		fmt.Println("@kolu " + os.Args[3] + " fact front " + filepath.Base(os.Args[0]) + " " + os.Getenv("LC_ALL") + "|" + strings.Join(os.Args[1:], " "))
		self, _ := os.Executable()
		fmt.Println("@kolu " + os.Args[3] + " fact self " + self)
		return
	}
	fmt.Println("0.0.1")
}
`

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := front(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// testBuild is a build for this machine: front, padded to size with bytes that differ with salt.
func testBuild(t *testing.T, salt string, size int64) Build {
	t.Helper()
	path, err := front()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for int64(len(data)) < size {
		data = append(data, salt...)
	}
	data = append(data, salt...)
	file := filepath.Join(shortDir(t), Program)
	if err := os.WriteFile(file, data, 0o755); err != nil {
		t.Fatal(err)
	}
	facts, err := measure(file)
	if err != nil {
		t.Fatal(err)
	}
	if facts.NotStatic != "" {
		t.Fatal(facts.NotStatic)
	}
	return Build{System: thisSystem, Version: "0.0.1", File: file,
		Size: facts.Size, SHA256: facts.SHA256, NarHash: facts.NarHash, NarSize: facts.NarSize}
}

func catalogOf(builds ...Build) *Catalog {
	c := &Catalog{version: "0.0.1", builds: map[string]Build{}, failed: map[string]error{}}
	for _, b := range builds {
		c.builds[b.System] = b
	}
	return c
}

func faultOf(t *testing.T, err error) *fault.Error {
	t.Helper()
	f, ok := err.(*fault.Error)
	if !ok {
		t.Fatalf("got %v (%T), want a *fault.Error", err, err)
	}
	return f
}
