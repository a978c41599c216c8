package call

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"kolu/daemon"
)

// lateAnswer is how long after its own timeout a wait may still answer before it counts as timed out here: the line may be down.
const lateAnswer = 2 * time.Second

// Within bounds a wait by its timeout in milliseconds, 0 for none, and what its answer may come late. over reports that this time
// ended the wait, so that there is no answer.
func Within(ctx context.Context, timeoutMS int64, wait func(ctx context.Context) error) (over bool, err error) {
	limited, cancel := daemon.Limit(ctx, timeoutMS, lateAnswer)
	defer cancel()
	err = wait(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return true, nil
	}
	return false, err
}

// Ask puts a question that blocks in the daemon, and puts it again on each new line; query gives its parameters each time. tries is
// how often it was put, which over a plain Dialer is at most plain times.
func (c *Client) Ask(ctx context.Context, path string, plain int, query func() url.Values, out any) (tries int, err error) {
	err = daemon.Retry(ctx, c.Dialer, plain, func(ctx context.Context) (bool, error) {
		tries++
		return c.ask(ctx, http.MethodGet, withQuery(path, query()), nil, nil, out)
	})
	return tries, err
}

// Events reads a stream of JSON values, and goes on with the stream of the next line when one breaks. news says what of a value is
// new to the reader, who may have seen a part of it on an earlier line. The end of the line is the last error; breaking off frees the
// connection.
func Events[E any](ctx context.Context, c *Client, path string, news func(E) []E) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		streaming, cancel := context.WithCancel(ctx)
		defer cancel()
		err := daemon.Retry(streaming, c.Dialer, 1, func(ctx context.Context) (bool, error) { return stream(ctx, c, path, news, yield) })
		if err != nil && ctx.Err() == nil {
			var none E
			yield(none, fmt.Errorf("watch: %w", err))
		}
	}
}

// stream reads one stream. done reports that there shall be no other.
func stream[E any](ctx context.Context, c *Client, path string, news func(E) []E, yield func(E, error) bool) (done bool, err error) {
	resp, err := c.send(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return !Broke(err), err
	}
	defer resp.Body.Close()
	for dec := json.NewDecoder(resp.Body); ; {
		var e E
		if err := dec.Decode(&e); err != nil {
			return false, fmt.Errorf("the line broke: %w", LineError(err))
		}
		for _, n := range news(e) {
			if !yield(n, nil) {
				return true, nil
			}
		}
	}
}
