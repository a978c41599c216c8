// Command line measures what a line to a host carries: how long a keystroke's echo takes alone and beside a flood, how much a
// stream carries compared with a channel of ssh, and how long a request takes. Everything is measured in one run over one host, so the
// ratios mean something and the times do not. The delay and the rate are the caller's to set, on a testbed:
//
//	testbed rate h1 10; testbed delay h1 50ms; go run ./bench/line -F SSH_CONFIG h1
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavalrpc"
	"kolu/fleet"
	"kolu/fleet/ssh"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config := flag.String("F", "", "ssh `configuration`")
	n := flag.Int("n", 150, "keystrokes and requests")
	span := flag.Duration("t", 6*time.Second, "how long a stream is measured")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: line [-F SSH_CONFIG] [-n COUNT] [-t TIME] HOST")
		os.Exit(2)
	}
	if err := run(ctx, flag.Arg(0), *config, *n, *span); err != nil {
		fmt.Fprintln(os.Stderr, "line:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, host, config string, n int, span time.Duration) error {
	link, err := fleet.Keep(ctx, host, "kaval", fleet.Options{ConfigFile: config}, nil)
	if err != nil {
		return err
	}
	defer link.Close()
	b := &bench{link: link, host: kavalrpc.NewClient(link), n: n, span: span}
	requests, err := b.requests(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%-34s p50 %8s  p95 %8s\n", "request", ms(at(requests, 50)), ms(at(requests, 95)))
	idle, beside, err := b.keystrokes(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%-34s p50 %8s  p95 %8s\n", "keystroke alone", ms(at(idle, 50)), ms(at(idle, 95)))
	fmt.Printf("%-34s p50 %8s  p95 %8s  ratio of p95 %.2f\n", "keystroke beside a flood", ms(at(beside, 50)), ms(at(beside, 95)),
		at(beside, 95).Seconds()/at(idle, 95).Seconds())
	ours, err := b.stream(ctx)
	if err != nil {
		return err
	}
	raw, err := channel(ctx, host, config, span)
	if err != nil {
		return err
	}
	fmt.Printf("%-34s %.2f MB/s, a channel of ssh %.2f MB/s, ratio %.2f\n", "stream", ours/1e6, raw/1e6, ours/raw)
	return nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1e3) }

func at(times []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

type bench struct {
	link *fleet.Session
	host *kavalrpc.Client
	n    int
	span time.Duration
}

func (b *bench) requests(ctx context.Context) (times []time.Duration, err error) {
	for range b.n {
		began := time.Now()
		if _, err := b.host.Info(ctx); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}

// spawn starts a program that is killed at the end, and attaches to it.
func (b *bench) spawn(ctx context.Context, script string) (kaval.Attachment, func(), error) {
	term, err := b.host.Spawn(ctx, kaval.SpawnRequest{Argv: []string{"sh", "-c", script}})
	if err != nil {
		return nil, nil, err
	}
	kill := func() { _ = b.host.Kill(context.WithoutCancel(ctx), term.ID) } // the host may be gone by then
	a, err := b.host.Attach(ctx, term.ID, kaval.AttachRequest{})
	if err != nil {
		kill()
		return nil, nil, err
	}
	return a, func() { a.Close(); kill() }, nil
}

func (b *bench) keystrokes(ctx context.Context) (idle, beside []time.Duration, err error) {
	typing, end, err := b.spawn(ctx, "stty raw -echo; exec cat")
	if err != nil {
		return nil, nil, err
	}
	defer end()
	if _, err := typing.Next(ctx); err != nil {
		return nil, nil, err
	}
	time.Sleep(500 * time.Millisecond) // for stty
	if idle, err = b.echoes(ctx, typing); err != nil {
		return nil, nil, err
	}
	flood, endFlood, err := b.spawn(ctx, "yes 'the quick brown fox jumps over the lazy dog'")
	if err != nil {
		return nil, nil, err
	}
	go func() { // ends with its attachment
		for {
			if _, err := flood.Next(ctx); err != nil {
				return
			}
		}
	}()
	time.Sleep(3 * time.Second) // for the line to be full
	beside, err = b.echoes(ctx, typing)
	endFlood()
	return idle, beside, err
}

func (b *bench) echoes(ctx context.Context, a kaval.Attachment) (times []time.Duration, err error) {
	for i := range b.n {
		key := []byte{byte('a' + i%26)}
		began := time.Now()
		if err := a.Write(ctx, key); err != nil {
			return nil, err
		}
		for got := false; !got; {
			f, err := a.Next(ctx)
			if err != nil {
				return nil, err
			}
			got = f.Kind == kaval.FrameData && bytes.Contains(f.Data, key)
		}
		times = append(times, time.Since(began))
		time.Sleep(20 * time.Millisecond)
	}
	return times, nil
}

// stream gives the bytes a second that come over the line while a program floods a terminal.
func (b *bench) stream(ctx context.Context) (float64, error) {
	flood, end, err := b.spawn(ctx, "yes 'the quick brown fox jumps over the lazy dog'")
	if err != nil {
		return 0, err
	}
	defer end()
	var began time.Time
	var first int64
	for start := time.Now(); ; {
		if _, err := flood.Next(ctx); err != nil {
			return 0, err
		}
		switch {
		case began.IsZero() && time.Since(start) > 2*time.Second: // the ramp is not measured, here nor there
			began, first = time.Now(), b.link.Report().Received
		case !began.IsZero() && time.Since(began) > b.span:
			return float64(b.link.Report().Received-first) / time.Since(began).Seconds(), nil
		}
	}
}

// channel is the same over one plain channel of the same transport.
func channel(ctx context.Context, host, config string, span time.Duration) (float64, error) {
	conn, err := ssh.Dial(ctx, host, ssh.Options{ConfigFile: config})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	p, err := conn.Start(ctx, "yes "+strings.Repeat("x", 70))
	if err != nil {
		return 0, err
	}
	defer p.Close()
	out, buf := p.Stdout(), make([]byte, 32<<10)
	var began time.Time
	got := 0
	for start := time.Now(); ; {
		n, err := out.Read(buf)
		if err != nil {
			return 0, fmt.Errorf("read channel: %w", io.ErrUnexpectedEOF)
		}
		got += n
		switch {
		case began.IsZero() && time.Since(start) > 2*time.Second:
			began, got = time.Now(), 0
		case !began.IsZero() && time.Since(began) > span:
			return float64(got) / time.Since(began).Seconds(), nil
		}
	}
}
