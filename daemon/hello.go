package daemon

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Hello is what a daemon says of itself at GET /v1/hello. Its shape never changes, so that any client can ask any daemon
// whether they understand each other.
type Hello struct {
	Daemon   string `json:"daemon"`   // padi or kaval
	Contract string `json:"contract"` // "major.minor"
	Build    string `json:"build"`
	Commit   string `json:"commit"`
	PID      int    `json:"pid"`
	// StartedAt is in milliseconds since 1970 by the daemon's clock.
	StartedAt int64  `json:"startedAt"`
	StateRoot string `json:"stateRoot"` // empty for a daemon on its own
	Socket    string `json:"socket"`
	// Executable is the real path of the program.
	Executable string `json:"executable"`
}

// helloTimeout bounds one hello: a daemon that says nothing for so long does not answer.
const helloTimeout = 8 * time.Second

// ReadHello asks the daemon behind d who it is.
func ReadHello(ctx context.Context, d Dialer) (Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	client := HTTPClient(d)
	defer client.CloseIdleConnections()
	return hello(ctx, client)
}

// Greet asks the daemon of a home who it is. The error of one that is there and does not answer names its process, which is left
// as it is.
func Greet(ctx context.Context, h Home) (Hello, error) {
	hello, err := ReadHello(ctx, Unix(h.Socket()))
	if err == nil || Absent(err) {
		return hello, err
	}
	if holder, gateErr := readGate(h.Gate()); gateErr == nil && holder.alive() {
		return Hello{}, fmt.Errorf("%s (pid %d) is there at %s but does not answer, and is left alone: %w", h.Kind.Name, holder.pid, h.Socket(), err)
	}
	return Hello{}, fmt.Errorf("%s is there but does not answer: %w", h.Socket(), err)
}

func hello(ctx context.Context, client *http.Client) (Hello, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://daemon/v1/hello", nil)
	if err != nil {
		return Hello{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return Hello{}, fmt.Errorf("ask for hello: %w", Unwrapped(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		_, detail := ReadProblem(resp)
		return Hello{}, fmt.Errorf("ask for hello: %s", detail)
	}
	var h Hello
	if err := ReadJSON(resp.Body, &h); err != nil {
		return Hello{}, fmt.Errorf("read hello: %w", err)
	}
	if h.Contract == "" || h.PID <= 0 {
		return Hello{}, fmt.Errorf("read hello: what answers is no daemon of kolu")
	}
	return h, nil
}
