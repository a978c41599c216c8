package client

import (
	"kolu/cli"
	"kolu/daemon"
)

// Other is a daemon that runs on this machine beside the one that was reached.
type Other struct{ Socket, Label string }

// Others are the kavals that belong to no padi and that c was preferred to: terminals in them show nowhere else. There are none where ep
// or the environment named a kaval, and none on another machine.
func Others(env *cli.Env, ep Endpoint, c *KavalClient) []Other {
	if ep != (Endpoint{}) || env.Getenv(daemon.Kaval.SocketVar()) != "" {
		return nil
	}
	var others []Other
	found := false
	for _, d := range daemon.Scan(daemon.Kaval, env.Getenv) {
		switch {
		case d.Socket == c.Where.Socket:
			found = true
		case d.Live && d.StateRoot == "":
			others = append(others, Other{Socket: d.Socket, Label: d.Label})
		}
	}
	if !found {
		return nil
	}
	return others
}
