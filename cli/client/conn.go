package client

import (
	"fmt"

	"kolu/cli"
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/fleet"
	"kolu/provision"
)

// Where says what was reached and how.
type Where struct {
	Socket string // of the daemon, on its machine
	Host   string // empty for this machine
	// Identity is the same for two ways to one daemon; empty where that is not known.
	Identity string
	// Link says how a host was reached; nil for this machine.
	Link *Link
	// Started reports that the daemon was started for this call.
	Started bool
}

// Link is how a host was reached, as --json shows it.
type Link struct {
	Transport string          `json:"transport"`         // master or native
	Rung      string          `json:"rung"`              // the way that the build got there; valid when it was there
	Refused   []fleet.Refusal `json:"refused,omitempty"` // the ways that the host did not allow
	Warnings  []string        `json:"warnings,omitempty"`
}

func linkOf(r fleet.Report) *Link {
	return &Link{Transport: r.Transport, Rung: r.Rung, Refused: r.Refused, Warnings: r.Warnings}
}

// Lasting reports whether the line to the daemon is made again when it breaks, so that calls wait for it.
func (w Where) Lasting() bool { return w.Host != "" }

// PadiClient is a connected padi.
type PadiClient struct {
	padi.Workspace
	Hello daemon.Hello
	Where Where
	end   func() error
}

// NewPadi makes a client of a workspace that is connected already; end closes what is below it.
func NewPadi(ws padi.Workspace, hello daemon.Hello, where Where, end func() error) *PadiClient {
	return &PadiClient{Workspace: ws, Hello: hello, Where: where, end: end}
}

// Lasting reports whether calls wait for a line that was lost.
func (c *PadiClient) Lasting() bool { return c.Where.Lasting() }

// Agents is what this padi does for the agents in its terminals.
func (c *PadiClient) Agents() (padi.AgentKeeper, error) {
	k, ok := c.Workspace.(padi.AgentKeeper)
	if !ok {
		return nil, fmt.Errorf("%w: this padi does not look after agents", kaval.ErrRefused)
	}
	return k, nil
}

// Sessions is what this padi remembers.
func (c *PadiClient) Sessions() (padi.SessionKeeper, error) {
	k, ok := c.Workspace.(padi.SessionKeeper)
	if !ok {
		return nil, fmt.Errorf("%w: this padi remembers no session", kaval.ErrRefused)
	}
	return k, nil
}

// Close ends the connection. The daemon and its terminals stay.
func (c *PadiClient) Close() error { return c.end() }

// upgrades are the verbs that make a daemon of this machine the build of the client.
var upgrades = map[string]string{"padi": "padi-tui upgrade", "kaval": "kaval-tui upgrade"}

// Skew says that the daemon is another build than this program, in a line for people; "" where it is the same. Nothing is wrong
// with that: a daemon outlives the programs that speak to it, and only an upgrade that was asked for changes it.
func (w Where) Skew(h daemon.Hello, getenv func(string) string) string {
	ours := provision.SelfID(getenv)
	if h.Build == ours || h.Build == "" || ours == "" {
		return ""
	}
	at, remedy := "here", fmt.Sprintf("`%s` brings it to this build", upgrades[h.Daemon])
	if w.Host != "" {
		at, remedy = "at "+w.Host, "it is left as it is"
	}
	return cli.Clean(fmt.Sprintf("the %s %s is build %.12s, this is build %.12s; both speak contract %s — %s", h.Daemon, at, h.Build, ours, h.Contract, remedy))
}

// KavalClient is a connected kaval.
type KavalClient struct {
	kaval.Host
	Hello daemon.Hello
	Where Where
	end   func() error
}

// NewKaval makes a client of a host that is connected already; end closes what is below it.
func NewKaval(host kaval.Host, hello daemon.Hello, where Where, end func() error) *KavalClient {
	return &KavalClient{Host: host, Hello: hello, Where: where, end: end}
}

// Lasting reports whether calls wait for a line that was lost.
func (c *KavalClient) Lasting() bool { return c.Where.Lasting() }

// Close ends the connection. The daemon and its terminals stay.
func (c *KavalClient) Close() error { return c.end() }
