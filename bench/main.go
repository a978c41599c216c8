// Command bench times whole commands against hosts and prints ratios: what a verb costs over what plain ssh costs, in the same
// run and in turn, by medians. Times of two machines or two days say nothing; the ratios do.
//
//	go run ./bench [-n RUNS] [-F SSH_CONFIG] [-cold] HOST...
//	go run ./bench [-n RUNS] [-F SSH_CONFIG] -names 50 HOST
//
// The second asks one host by many names, as if they were hosts behind one server (many.go). It uses a home and a runtime directory of its own. -cold also times the first verb on a host that has no build: it ends the
// daemons that this user has on the host and removes their builds, so it is for throw-away hosts. Linux only.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var names = []string{"kaval", "padi", "kaval-tui", "padi-tui", "pulam-tui"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	n := flags.Int("n", 15, "runs of each command")
	config := flags.String("F", "", "ssh `configuration`")
	cold := flags.Bool("cold", false, "also time the first verb on a host without a build; removes the host's builds and daemons")
	names := flags.Int("names", 0, "instead, ask each host by so many names at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 || *n < 1 {
		return errors.New("usage: bench [-n RUNS] [-F SSH_CONFIG] [-cold | -names N] HOST [HOST]")
	}
	b, err := newBench(ctx, *config, *n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	fmt.Printf("%-10s %-44s %9s %9s %7s\n", "HOST", "COMMAND", "MEDIAN", "SSH", "RATIO")
	for _, host := range flags.Args() {
		if *names > 0 {
			if err := b.many(ctx, host, *names); err != nil {
				return err
			}
			continue
		}
		if err := b.warm(ctx, host); err != nil {
			return err
		}
		if *cold {
			if err := b.cold(ctx, host); err != nil {
				return err
			}
		}
	}
	return nil
}

type bench struct {
	dir, bin, ssh string
	program       string // the ssh of this machine
	n             int
	homes         int
}

func newBench(ctx context.Context, config string, n int) (*bench, error) {
	dir, err := os.MkdirTemp("/tmp", "kb")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir, bin: filepath.Join(dir, "bin"), n: n}
	if err := b.build(ctx, config); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) build(ctx context.Context, config string) error {
	if err := os.Mkdir(b.bin, 0o755); err != nil {
		return err
	}
	system, err := exec.CommandContext(ctx, "nix/build", "system").Output()
	if err != nil {
		return fmt.Errorf("run nix/build (bench is run from the top of the repository): %w", err)
	}
	if out, err := exec.CommandContext(ctx, "nix/build", "one", strings.TrimSpace(string(system)), filepath.Join(b.bin, "kolu")).CombinedOutput(); err != nil {
		return fmt.Errorf("nix/build: %w\n%s", err, out)
	}
	for _, name := range names {
		if err := os.Symlink("kolu", filepath.Join(b.bin, name)); err != nil {
			return err
		}
	}
	program, err := exec.LookPath("ssh")
	if err != nil {
		return err
	}
	b.program = program
	if config != "" {
		program += " -F " + config
	}
	b.ssh = filepath.Join(b.bin, "ssh") // kolu finds this one too, and with it the configuration
	return os.WriteFile(b.ssh, []byte("#!/bin/sh\nexec "+program+" \"$@\"\n"), 0o755)
}

// user is a home and a runtime directory: what a client remembers and keeps open.
type user struct {
	home string
	env  []string
	bin  string
}

func (b *bench) newUser() (*user, error) {
	b.homes++
	home := filepath.Join(b.dir, strconv.Itoa(b.homes))
	if err := os.MkdirAll(filepath.Join(home, "run"), 0o700); err != nil {
		return nil, err
	}
	return &user{home: home, bin: b.bin, env: []string{
		"HOME=" + home, "XDG_RUNTIME_DIR=" + filepath.Join(home, "run"), "KOLU_RUNTIME_DIR=" + filepath.Join(home, "run"), "PATH=" + b.bin + ":" + os.Getenv("PATH"), "TERM=dumb", "LANG=C.UTF-8",
	}}, nil
}

// output runs a command to its end and gives what it printed.
func (u *user) output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(u.bin, name), args...)
	cmd.Env = u.env
	out, err := cmd.Output()
	return string(out), err
}

// time runs a command to its end and says how long it took.
func (u *user) time(ctx context.Context, stdin io.Reader, name string, args ...string) (time.Duration, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(u.bin, name), args...)
	cmd.Env, cmd.Stdin, cmd.Stderr = u.env, stdin, &stderr
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return time.Since(start), nil
}

// pair times two commands in turn and prints the ratio of the medians.
func (b *bench) pair(host, what string, ours, theirs func() (time.Duration, error)) error {
	var a, z []time.Duration
	for range b.n {
		d, err := ours()
		if err != nil {
			return err
		}
		a = append(a, d)
		if d, err = theirs(); err != nil {
			return err
		}
		z = append(z, d)
	}
	ms := func(d time.Duration) string { return fmt.Sprintf("%.0f ms", d.Seconds()*1000) }
	fmt.Printf("%-10s %-44s %9s %9s %6.2fx\n", host, what, ms(median(a)), ms(median(z)), median(a).Seconds()/median(z).Seconds())
	return nil
}

func median(d []time.Duration) time.Duration {
	slices.SortFunc(d, cmp.Compare)
	return d[len(d)/2]
}

// warm times the verbs on a host that has the build and a running padi.
func (b *bench) warm(ctx context.Context, host string) error {
	u, err := b.newUser()
	if err != nil {
		return err
	}
	defer u.end()
	if _, err := u.time(ctx, nil, "padi-tui", "status", "--host", host); err != nil {
		return err
	}
	first := func(transport string) func() (time.Duration, error) {
		return func() (time.Duration, error) {
			fresh, err := b.newUser()
			if err != nil {
				return 0, err
			}
			defer fresh.end()
			return fresh.time(ctx, nil, "kaval-tui", "list", "--host", host, "--ssh", transport)
		}
	}
	plain := func() (time.Duration, error) { return u.time(ctx, nil, "ssh", host, "true") }
	for _, transport := range []string{"auto", "native"} {
		if err := b.pair(host, "first verb, --ssh "+transport+", over `ssh H true`", first(transport), plain); err != nil {
			return err
		}
	}
	control := filepath.Join(u.home, "run", "m")
	if _, err := u.time(ctx, nil, "ssh", "-o", "ControlPath="+control, "-o", "ControlMaster=auto", "-o", "ControlPersist=600", host, "true"); err != nil {
		return err
	}
	muxed := func() (time.Duration, error) {
		return u.time(ctx, nil, "ssh", "-o", "ControlPath="+control, host, "true")
	}
	next := func() (time.Duration, error) { return u.time(ctx, nil, "kaval-tui", "list", "--host", host) }
	if _, err := next(); err != nil { // the master is up from here on
		return err
	}
	return b.pair(host, "next verb, over `ssh H true` by a master", next, muxed)
}

// cold times the first verb on a host that has nothing of ours against the bare bytes, and against those and a dial of a host that has
// them: the least that the two parts of it can cost.
func (b *bench) cold(ctx context.Context, host string) error {
	u, err := b.newUser()
	if err != nil {
		return err
	}
	defer u.end()
	const wipe = `exec /bin/sh -c 'for f in /tmp/padi-*/padi.pid /tmp/kaval-*/kaval.pid /run/user/*/padi-*/padi.pid /run/user/*/kaval-*/kaval.pid; do ` +
		`[ -O "$f" ] && read -r pid rest <"$f" && kill "$pid"; done; ` +
		`rm -rf ~/.local/share/kolu ~/.local/state/kolu ~/.local/state/padi /tmp/padi-* /tmp/kaval-*; for r in /nix/store/*-kolu-*; do nix-store --delete "$r"; done; :' >/dev/null 2>&1`
	build, err := os.ReadFile(filepath.Join(b.bin, "kolu"))
	if err != nil {
		return err
	}
	first := func() (time.Duration, error) {
		if _, err := u.time(ctx, nil, "ssh", host, wipe); err != nil {
			return 0, err
		}
		fresh, err := b.newUser()
		if err != nil {
			return 0, err
		}
		defer fresh.end()
		return fresh.time(ctx, nil, "kaval-tui", "list", "--host", host)
	}
	bytesOnly := func() (time.Duration, error) {
		return u.time(ctx, bytes.NewReader(build), "ssh", host, "exec /bin/sh -c 'cat >/tmp/kolu-bench; rm /tmp/kolu-bench'")
	}
	if err := b.pair(host, fmt.Sprintf("cold verb, over `ssh H cat` of %d bytes", len(build)), first, bytesOnly); err != nil {
		return err
	}
	return b.pair(host, "cold verb, over that and one dial", first, func() (time.Duration, error) {
		bytes, err := bytesOnly()
		if err != nil {
			return 0, err
		}
		fresh, err := b.newUser()
		if err != nil {
			return 0, err
		}
		defer fresh.end()
		dial, err := fresh.time(ctx, nil, "kaval-tui", "list", "--host", host)
		return bytes + dial, err
	})
}

// end ends what runs with the user's home: masters, and the daemons here if there are any.
func (u *user) end() {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		environ, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(append([]byte{0}, environ...), []byte("\x00HOME="+u.home+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended meanwhile
		}
	}
}

func (b *bench) close() error { return os.RemoveAll(b.dir) }
