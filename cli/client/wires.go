package client

import (
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavalrpc"
	"kolu/daemon/padi"
	"kolu/daemon/padi/padirpc"
)

func padiWire(d daemon.Dialer, sender padi.Sender) (padi.Workspace, func() error) {
	c := padirpc.NewClient(d).As(sender)
	return c, c.Close
}

func kavalWire(d daemon.Dialer) (kaval.Host, func() error) {
	c := kavalrpc.NewClient(d)
	return c, c.Close
}
