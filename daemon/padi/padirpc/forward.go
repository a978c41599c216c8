package padirpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"kolu/daemon"
	"kolu/daemon/call"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/internal/loopback"
)

// A forwarded connection begins as a request to change the protocol. Both ends of the TCP connection over there are in the
// answer, so that the near end can tell its own port from another machine's.
const (
	forwardProtocol = "kolu-forward"
	localHeader     = "Forward-Local"
	remoteHeader    = "Forward-Remote"
	// forwardMost is how many forwarded connections a padi has at once.
	forwardMost = 512
	// forwardWithin bounds how long padi may take to answer.
	forwardWithin = 30 * time.Second
)

// forwards joins requests to ports of this machine.
type forwards struct {
	*server
	dialer loopback.Dialer
	slots  chan struct{}
}

func newForwards(s *server) *forwards {
	return &forwards{server: s, slots: make(chan struct{}, forwardMost)}
}

func (f *forwards) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := query{values: r.URL.Query()}
	port := int(q.number("port"))
	switch {
	case q.err != nil:
		f.refuse(w, r, q.err)
		return
	case !loopback.Valid(port):
		f.refuse(w, r, kaval.Invalidf("port=%q is not a port", q.text("port")))
		return
	case !strings.EqualFold(r.Header.Get("Upgrade"), forwardProtocol):
		f.refuse(w, r, kaval.Invalidf("a forward begins with Connection: Upgrade and Upgrade: %s", forwardProtocol))
		return
	}
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	default:
		f.refuse(w, r, fmt.Errorf("%d connections are forwarded already: %w", forwardMost, kaval.ErrLimit))
		return
	}
	conn, err := f.dialer.Dial(r.Context(), port)
	if errors.Is(err, loopback.ErrClosed) {
		err = fmt.Errorf("%w %d (127.0.0.1 and ::1 were tried)", padi.ErrPortClosed, port)
	}
	if err != nil {
		f.refuse(w, r, err)
		return
	}
	f.join(w, r, conn)
}

// join hands the request's connection over to the bytes.
func (f *forwards) join(w http.ResponseWriter, r *http.Request, conn *net.TCPConn) {
	near, ahead, err := http.NewResponseController(w).Hijack()
	if err != nil {
		conn.Close()
		f.refuse(w, r, err)
		return
	}
	half, ok := near.(loopback.Half)
	if !ok {
		conn.Close()
		near.Close()
		return
	}
	near.SetDeadline(time.Time{})
	fmt.Fprintf(ahead, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: %s\r\n%s: %s\r\n\r\n",
		forwardProtocol, localHeader, conn.LocalAddr(), remoteHeader, conn.RemoteAddr())
	if ahead.Flush() != nil {
		conn.Close()
		near.Close()
		return
	}
	stop := context.AfterFunc(r.Context(), func() { near.Close() }) // the daemon ends
	defer stop()
	// Not through the server's own reader beyond what it holds: at the end of the input it would end the request's context.
	early := io.LimitReader(ahead.Reader, int64(ahead.Reader.Buffered()))
	loopback.Splice(half, conn, io.MultiReader(early, near), nil)
}

var _ padi.Forwarder = (*Client)(nil)

// Forward connects to a port of padi's machine. ctx bounds the connecting.
func (c *Client) Forward(ctx context.Context, port int) (conn net.Conn, err error) {
	err = daemon.Retry(ctx, c.calls.Dialer, 1, func(ctx context.Context) (bool, error) {
		conn, err = c.forward(ctx, port)
		return !call.Broke(err), err
	})
	return conn, err
}

func (c *Client) forward(ctx context.Context, port int) (net.Conn, error) {
	conn, err := c.calls.Dialer.Dial(ctx)
	if err != nil {
		return nil, &call.Broken{Err: err}
	}
	conn.SetDeadline(time.Now().Add(forwardWithin))
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	there, err := ask101(conn, port)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	conn.SetDeadline(time.Time{})
	return there, nil
}

// ask101 sends the request over a connection of its own and reads the answer.
func ask101(conn net.Conn, port int) (*forwarded, error) {
	_, err := fmt.Fprintf(conn, "POST /v1/forward?port=%d HTTP/1.1\r\nHost: padi\r\nConnection: Upgrade\r\nUpgrade: %s\r\nContent-Length: 0\r\n\r\n",
		port, forwardProtocol)
	if err != nil {
		return nil, &call.Broken{Err: fmt.Errorf("ask for the port: %w", err)}
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodPost})
	if err != nil {
		return nil, &call.Broken{Err: fmt.Errorf("read answer: %w", err)}
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close()
		return nil, noForward(resp)
	}
	return &forwarded{Conn: conn, r: r, local: address(resp, localHeader), remote: address(resp, remoteHeader)}, nil
}

// noForward is the error of a padi that said no; one that does not know the route says that, or nothing in particular.
func noForward(resp *http.Response) error {
	if resp.StatusCode != http.StatusNotFound {
		return refused(resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var p problem
	if resp.Header.Get("Content-Type") != problemType || (err == nil && json.Unmarshal(body, &p) == nil && p.Code == daemon.NoRoute) {
		return padi.ErrNoForward
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return refused(resp)
}

func address(resp *http.Response, header string) net.Addr {
	addr, err := netip.ParseAddrPort(resp.Header.Get(header))
	if err != nil {
		return &net.TCPAddr{}
	}
	return net.TCPAddrFromAddrPort(addr)
}

// forwarded is a connection to a port over there.
type forwarded struct {
	net.Conn
	r             io.Reader
	local, remote net.Addr
}

func (f *forwarded) Read(b []byte) (int, error) { return f.r.Read(b) }
func (f *forwarded) LocalAddr() net.Addr        { return f.local }
func (f *forwarded) RemoteAddr() net.Addr       { return f.remote }

// CloseWrite ends our direction.
func (f *forwarded) CloseWrite() error {
	if half, ok := f.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
