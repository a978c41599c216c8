// Package call is the near end of a daemon's wire: requests over a daemon.Dialer, each answered or done once however often its line
// breaks. kavalrpc and padirpc build their clients on a [Client]; it knows no message and no error of theirs. Start reading at
// [Client.Change].
package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"kolu/daemon"
)

// maxAnswer bounds a JSON answer: the whole text of a terminal is the largest.
const maxAnswer = 256 << 20

// Client asks the daemon behind a Dialer. Its methods may be called concurrently; ctx bounds a call, on whatever number of lines.
type Client struct {
	// Dialer leads to the daemon. Over a daemon.Redialer what broke is asked again on the next line.
	Dialer daemon.Dialer
	// HTTP is for requests that are no call of this package.
	HTTP *http.Client
	// Header goes along with every call. It is set before the first one.
	Header http.Header

	base    string
	refused func(*http.Response) error
	memory  atomic.Value // string: the daemon's daemon.IdempotencyMemory, as the last answer had it
}

// New makes a client; it dials when it is first asked. name stands for the host in URLs. refused gives the error that an answer
// other than 200 means; a *Broken one says that it could not be read.
func New(d daemon.Dialer, name string, refused func(*http.Response) error) *Client {
	return &Client{Dialer: d, HTTP: daemon.HTTPClient(d), base: "http://" + name, refused: refused}
}

// Close drops the connections that no call uses. The client can still be used.
func (c *Client) Close() error {
	c.HTTP.CloseIdleConnections()
	return nil
}

// Lasting reports whether a lost line is made again.
func (c *Client) Lasting() bool {
	_, ok := c.Dialer.(daemon.Redialer)
	return ok
}

// Broken is the error of a request to which no answer came. It reads like its cause.
type Broken struct{ Err error }

func (e *Broken) Error() string { return e.Err.Error() }
func (e *Broken) Unwrap() error { return e.Err }

// Broke reports whether err says that the line broke before the answer.
func Broke(err error) bool {
	_, broke := errors.AsType[*Broken](err)
	return broke
}

// Get asks a question and decodes its answer into out.
func (c *Client) Get(ctx context.Context, path string, q url.Values, out any) error {
	return daemon.Retry(ctx, c.Dialer, 1, func(ctx context.Context) (bool, error) {
		return c.ask(ctx, http.MethodGet, withQuery(path, q), nil, nil, out)
	})
}

// Change asks for something to be done. When the line breaks before the answer it asks again with the same key, so that the daemon
// does it once whichever of the requests arrived. A nil in sends no body, a nil out wants no answer.
func (c *Client) Change(ctx context.Context, method, path string, in, out any) error {
	return c.change(ctx, 0, method, path, in, out)
}

// ChangeWithin is Change where a daemon at the other end of a lasting line is given so long for each answer. On this machine the
// caller's limit counts.
func (c *Client) ChangeWithin(ctx context.Context, limit time.Duration, method, path string, in, out any) error {
	if !c.Lasting() {
		limit = 0
	}
	return c.change(ctx, limit, method, path, in, out)
}

func (c *Client) change(ctx context.Context, limit time.Duration, method, path string, in, out any) error {
	header := http.Header{daemon.IdempotencyKey: {uuid.NewString()}, "Content-Type": {"application/json"}}
	if in == nil {
		in = struct{}{} // a request with a body is one that the transport can be kept from sending again
	}
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	memory, _ := c.memory.Load().(string)
	return daemon.Retry(ctx, c.Dialer, 2, func(ctx context.Context) (bool, error) {
		limited, cancel := daemon.Limit(ctx, limit.Milliseconds(), 0)
		defer cancel()
		var left atomic.Bool
		limited = httptrace.WithClientTrace(limited, &httptrace.ClientTrace{WroteHeaders: func() { left.Store(true) }})
		answered, err := c.ask(limited, method, path, body, header, out)
		if err != nil && limited.Err() != nil && ctx.Err() == nil {
			answered, err = false, fmt.Errorf("no answer within %s", limit)
		}
		if memory != "" && left.Load() {
			header.Set(daemon.IdempotencyMemory, memory) // from the second time on
		}
		return answered, err
	})
}

// ask sends a request once. answered reports that the answer came whole, be it an error.
func (c *Client) ask(ctx context.Context, method, path string, body []byte, header http.Header, out any) (answered bool, err error) {
	resp, err := c.send(ctx, method, path, body, header)
	if err == nil {
		err = decode(resp, out)
	}
	return !Broke(err), err
}

// send gives the response of a request that went well; its body is the caller's to close.
func (c *Client) send(ctx context.Context, method, path string, body []byte, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, c.Header)
	maps.Copy(req.Header, header)
	if header != nil {
		// Without this the transport itself sends a request with a key again when its connection breaks, to whichever daemon is there
		// then, as if it were the first time.
		req.GetBody = nil
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &Broken{daemon.Unwrapped(err)}
	}
	if memory := resp.Header.Get(daemon.IdempotencyMemory); memory != "" {
		c.memory.Store(memory)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, c.refused(resp)
	}
	return resp, nil
}

func decode(resp *http.Response, out any) error {
	defer resp.Body.Close()
	if out == nil {
		out = &struct{}{}
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out); err != nil {
		return &Broken{fmt.Errorf("read answer: %w", LineError(err))}
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10)) // so that the connection can be used again
	return nil
}

// LineError calls the end of a stream that has no end by its name.
func LineError(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
