package kavalrpc_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"

	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavalrpc"
	"kolu/stdio/stdiotest"
)

// pasted is what a test pastes: far more than a terminal holds for a program that does not read.
func pasted(n int) []byte {
	var b strings.Builder
	for i := range n {
		b.WriteString(numberedLine(i))
	}
	return []byte(b.String())
}

const pastedLines = 4_000 // 48 kB, less than a lasting attachment keeps

// stopped is a recorder that does not read until goOn is called.
func stopped(t *testing.T, host kaval.Host) (id kaval.TerminalID, file string, goOn func()) {
	t.Helper()
	id, file = recorder(t, host)
	list, err := host.List(bounded(t))
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	if err := syscall.Kill(list[0].PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	return id, file, func() {
		if err := syscall.Kill(list[0].PID, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
}

// A paste waits for the program that reads it. A new size does not wait behind it; another writer does, for as long as a send may.
func TestPasteWaitsForTheProgram(t *testing.T) {
	t.Parallel()
	socket, host := serve(t)
	id, file, goOn := stopped(t, host)
	c := kavalrpc.NewClient(daemon.Unix(socket))
	defer c.Close()
	a, err := c.Attach(bounded(t), id, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.Next(bounded(t)); err != nil { // from now on what is typed goes out at once
		t.Fatal(err)
	}
	if err := a.Write(bounded(t), pasted(pastedLines)); err != nil {
		t.Fatal(err)
	}
	if err := a.Resize(bounded(t), kaval.Size{Cols: 61, Rows: 17}); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := a.Next(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		if frame.Kind == kaval.FrameResized && frame.Size == (kaval.Size{Cols: 61, Rows: 17}) {
			break
		}
	}
	err = c.Write(bounded(t), id, kaval.Input{Data: []byte("x")})
	if !errors.Is(err, kaval.ErrStalled) || !strings.Contains(err.Error(), "0 of 1") {
		t.Errorf("another writer: %v", err)
	}
	goOn()
	holds(t, file, pastedLines)
}

// A client that has gone holds nobody up.
func TestClosedClientLeavesTheLane(t *testing.T) {
	t.Parallel()
	socket, host := serve(t)
	id, _, _ := stopped(t, host)
	c := kavalrpc.NewClient(daemon.Unix(socket))
	defer c.Close()
	a, err := c.Attach(bounded(t), id, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Write(bounded(t), pasted(pastedLines)); err != nil {
		t.Fatal(err)
	}
	a.Close()
	for {
		err := host.Write(bounded(t), id, kaval.Input{Data: []byte("x")})
		if err == nil {
			continue // it was before the paste
		}
		if !errors.Is(err, kaval.ErrStalled) {
			t.Fatal(err)
		}
		if !strings.Contains(err.Error(), "an earlier input") {
			break // it had its turn, though the program still does not read
		}
	}
}

// A paste that waits for its program when the line is cut goes on where it was, over the next line.
func TestPasteOverACutLine(t *testing.T) {
	t.Parallel()
	socket, host := serve(t)
	id, file, goOn := stopped(t, host)
	line := stdiotest.New(t, daemon.Unix(socket).Dial)
	c := kavalrpc.NewClient(line)
	defer c.Close()
	a, err := c.Attach(bounded(t), id, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var reader sync.WaitGroup
	defer reader.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader.Go(func() { // what reads the frames also makes the lines again
		for ctx.Err() == nil {
			if _, err := a.Next(ctx); err != nil {
				return
			}
		}
	})
	data := pasted(pastedLines)
	for i := range 4 {
		if err := a.Write(bounded(t), data[i*len(data)/4:(i+1)*len(data)/4]); err != nil {
			t.Fatal(err)
		}
		line.Cut()
		line.Mend(t)
	}
	goOn()
	holds(t, file, pastedLines)
}
