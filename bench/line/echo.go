package main

import (
	"bytes"
	"context"
	"io"
	"time"

	"kolu/daemon/kaval"
	"kolu/fleet/ssh"
)

// requests times a request of a daemon against a byte that goes through `ssh H cat`, by turns of a hundred: the least that anything
// can take over this transport, on this machine, now.
func (b *bench) requests(ctx context.Context) error {
	cat, err := b.plain.Start(ctx, "exec cat")
	if err != nil {
		return err
	}
	defer cat.Close()
	if _, err := roundTrip(cat); err != nil { // it has started
		return err
	}
	var bytes, requests []time.Duration
	for i := range 10 * b.n {
		if i%100 < 50 {
			took, err := roundTrip(cat)
			if err != nil {
				return err
			}
			bytes = append(bytes, took)
			continue
		}
		began := time.Now()
		if _, err := b.kaval.Info(ctx); err != nil {
			return err
		}
		requests = append(requests, time.Since(began))
	}
	print("byte through `ssh H cat`", bytes, "")
	print("request", requests, ratio(at(requests, 50), at(bytes, 50))+" by p50")
	return nil
}

// roundTrip sends a byte to a program that sends it back.
func roundTrip(cat *ssh.Process) (time.Duration, error) {
	began := time.Now()
	if _, err := cat.Stdin().Write([]byte{'x'}); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(cat.Stdout(), make([]byte, 1))
	return time.Since(began), err
}

// keystrokes times the echo of a key, alone and while a program floods another terminal over the same link.
func (b *bench) keystrokes(ctx context.Context) error {
	typing, end, err := b.spawn(ctx, "stty raw -echo; echo ready; exec cat")
	if err != nil {
		return err
	}
	defer end()
	if err := until(ctx, typing, "ready"); err != nil {
		return err
	}
	idle, err := b.echoes(ctx, typing)
	if err != nil {
		return err
	}
	flood, endFlood, err := b.spawn(ctx, "yes 'the quick brown fox jumps over the lazy dog'")
	if err != nil {
		return err
	}
	defer endFlood()
	go func() { // ends with its attachment
		for {
			if _, err := flood.Next(ctx); err != nil {
				return
			}
		}
	}()
	time.Sleep(3 * time.Second) // for the line to be full
	beside, err := b.echoes(ctx, typing)
	if err != nil {
		return err
	}
	print("keystroke alone", idle, "")
	print("keystroke beside a flood", beside, ratio(at(beside, 95), at(idle, 95))+" by p95")
	return nil
}

// spawn starts a program that is killed at the end, and attaches to it.
func (b *bench) spawn(ctx context.Context, script string) (kaval.Attachment, func(), error) {
	term, err := b.kaval.Spawn(ctx, kaval.SpawnRequest{Argv: []string{"sh", "-c", script}})
	if err != nil {
		return nil, nil, err
	}
	kill := func() { _ = b.kaval.Kill(context.WithoutCancel(ctx), term.ID) } // the host may be gone by then
	a, err := b.kaval.Attach(ctx, term.ID, kaval.AttachRequest{})
	if err != nil {
		kill()
		return nil, nil, err
	}
	return a, func() { a.Close(); kill() }, nil
}

// until waits for a text among what a program prints.
func until(ctx context.Context, a kaval.Attachment, text string) error {
	var seen []byte
	for !bytes.Contains(seen, []byte(text)) {
		f, err := a.Next(ctx)
		if err != nil {
			return err
		}
		seen = append(seen, f.Data...)
	}
	return nil
}

func (b *bench) echoes(ctx context.Context, a kaval.Attachment) (times []time.Duration, err error) {
	for i := range b.n {
		key := string('a' + rune(i%26))
		began := time.Now()
		if err := a.Write(ctx, []byte(key)); err != nil {
			return nil, err
		}
		if err := until(ctx, a, key); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
		time.Sleep(20 * time.Millisecond)
	}
	return times, nil
}
