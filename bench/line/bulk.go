package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"kolu/fleet/ssh"
)

// source is a program on the host that gives zeros to whoever connects and sends a 0, and takes what comes after a 1. Its first line is its
// port. It ends with its input.
const source = `use IO::Socket::INET;
$| = 1; $SIG{CHLD} = 'IGNORE';
my $s = IO::Socket::INET->new(Listen => 9, LocalAddr => '127.0.0.1') or die;
print $s->sockport, "\n";
my $main = $$;
if (!fork) { 1 while sysread(STDIN, my $x, 1); kill 'TERM', $main; exit }
while (my $c = $s->accept) {
  next if fork;
  my $b = "\0" x 65536;
  sysread($c, my $way, 1);
  if ($way eq "0") { 1 while syswrite($c, $b) } else { 1 while sysread($c, $b, 65536) }
  exit;
}
__END__
`

// down compares what a forwarded port carries to us with what a channel of ssh does.
func (b *bench) down(ctx context.Context) error {
	ours, end, err := b.forwarded(ctx, '0')
	if err != nil {
		return err
	}
	carried, err := b.rate(ours.Read)
	end()
	if err != nil {
		return err
	}
	p, err := b.plain.Start(ctx, "exec cat /dev/zero")
	if err != nil {
		return err
	}
	defer p.Close()
	plain, err := b.rate(p.Stdout().Read)
	if err != nil {
		return err
	}
	fmt.Printf("%-26s %.2f MB/s, a channel of ssh %.2f MB/s, %.2f times\n", "stream to here", carried/1e6, plain/1e6, carried/plain)
	return nil
}

// up is the other way.
func (b *bench) up(ctx context.Context) error {
	ours, end, err := b.forwarded(ctx, '1')
	if err != nil {
		return err
	}
	carried, err := b.rate(ours.Write)
	end()
	if err != nil {
		return err
	}
	p, err := b.plain.Start(ctx, "exec cat >/dev/null")
	if err != nil {
		return err
	}
	defer p.Close()
	plain, err := b.rate(p.Stdin().Write)
	if err != nil {
		return err
	}
	fmt.Printf("%-26s %.2f MB/s, a channel of ssh %.2f MB/s, %.2f times\n", "stream from here", carried/1e6, plain/1e6, carried/plain)
	return nil
}

// forwarded is a connection through padi to a source on the host.
func (b *bench) forwarded(ctx context.Context, way byte) (net.Conn, func(), error) {
	p, port, err := b.source(ctx)
	if err != nil {
		return nil, nil, err
	}
	conn, err := b.padi.Forward(ctx, port)
	if err == nil {
		_, err = conn.Write([]byte{way})
	}
	if err != nil {
		p.Close()
		return nil, nil, fmt.Errorf("forward: %w", err)
	}
	return conn, func() { conn.Close(); p.Close() }, nil
}

func (b *bench) source(ctx context.Context) (*ssh.Process, int, error) {
	p, err := b.plain.Start(ctx, "exec perl -")
	if err != nil {
		return nil, 0, err
	}
	if _, err := io.WriteString(p.Stdin(), source); err != nil {
		p.Close()
		return nil, 0, err
	}
	line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
	if err != nil {
		p.Close()
		return nil, 0, fmt.Errorf("start perl: %w: %s", err, p.Stderr())
	}
	port, err := strconv.Atoi(strings.TrimSpace(line))
	return p, port, err
}

// rate gives the bytes a second that move makes, once the line is warm.
func (b *bench) rate(move func([]byte) (int, error)) (float64, error) {
	var moved atomic.Int64
	failed := make(chan error, 1)
	go func() { // ends with what move belongs to
		for buf := make([]byte, 64<<10); ; {
			n, err := move(buf)
			moved.Add(int64(n))
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	wait := func() error {
		select {
		case err := <-failed:
			return fmt.Errorf("after %d bytes: %w", moved.Load(), err)
		case <-time.After(b.span):
			return nil
		}
	}
	if err := wait(); err != nil {
		return 0, err
	}
	before, began := moved.Load(), time.Now()
	if err := wait(); err != nil {
		return 0, err
	}
	return float64(moved.Load()-before) / time.Since(began).Seconds(), nil
}
