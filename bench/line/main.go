// Command line measures what a line to a host carries: how long a request takes, how long a keystroke's echo takes alone and beside a
// flood, and how much a stream carries each way. Beside each stands what plain ssh does over a channel of its own in the same run, so
// the ratios mean something and the times do not. The delay and the rate are the caller's to set, on a testbed:
//
//	testbed rate h1 10; testbed delay h1 50ms; go run ./bench/line -F SSH_CONFIG h1
//
// The streams need perl on the host.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"kolu/daemon/kaval/kavalrpc"
	"kolu/daemon/padi/padirpc"
	"kolu/fleet"
	"kolu/fleet/ssh"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := &bench{}
	flag.StringVar(&b.ssh.ConfigFile, "F", "", "ssh `configuration`")
	flag.StringVar((*string)(&b.ssh.Transport), "ssh", "auto", "`transport`: auto, master or native")
	flag.IntVar(&b.n, "n", 150, "keystrokes; ten times as many requests")
	flag.DurationVar(&b.span, "t", 6*time.Second, "how long a stream is measured, after as long again")
	only := flag.String("only", "requests,keystrokes,down,up", "what to measure")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: line [-F SSH_CONFIG] [-ssh TRANSPORT] [-n COUNT] [-t TIME] [-only WHAT] HOST")
		os.Exit(2)
	}
	b.name = flag.Arg(0)
	if err := b.run(ctx, strings.Split(*only, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "line:", err)
		os.Exit(1)
	}
}

type bench struct {
	name string
	ssh  ssh.Options
	n    int
	span time.Duration

	kaval *kavalrpc.Client
	padi  *padirpc.Client
	plain *ssh.Conn
}

func (b *bench) run(ctx context.Context, only []string) error {
	o := fleet.Options{ConfigFile: b.ssh.ConfigFile, Transport: string(b.ssh.Transport)}
	kaval, err := fleet.Keep(ctx, b.name, "kaval", o, nil)
	if err != nil {
		return err
	}
	defer kaval.Close()
	padi, err := fleet.Keep(ctx, b.name, "padi", o, nil)
	if err != nil {
		return err
	}
	defer padi.Close()
	if b.plain, err = ssh.Dial(ctx, b.name, b.ssh); err != nil {
		return err
	}
	defer b.plain.Close()
	b.kaval, b.padi = kavalrpc.NewClient(kaval), padirpc.NewClient(padi)
	for _, m := range []struct {
		name string
		run  func(context.Context) error
	}{{"requests", b.requests}, {"keystrokes", b.keystrokes}, {"down", b.down}, {"up", b.up}} {
		if !slices.Contains(only, m.name) {
			continue
		}
		if err := m.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// print prints a line of times.
func print(what string, times []time.Duration, more string) {
	fmt.Printf("%-26s p50 %8s  p95 %8s  %s\n", what, ms(at(times, 50)), ms(at(times, 95)), more)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1e3) }

func at(times []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

// ratio says how one time compares with another.
func ratio(ours, theirs time.Duration) string {
	return fmt.Sprintf("%.2f times", ours.Seconds()/theirs.Seconds())
}
