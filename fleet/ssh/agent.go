package ssh

import (
	"context"
	"io"
	"net"
	"sync"

	xssh "golang.org/x/crypto/ssh"
)

// forwardsAgent is what ForwardAgent says for a target, empty for no. The configuration is resolved only where it mentions the word.
func (o *Options) forwardsAgent(ctx context.Context, t Target) string {
	if !mentions(o.configFiles(), "forwardagent", o.getenv("HOME"), 4) {
		return ""
	}
	conf, err := o.resolve(ctx, t)
	if err != nil {
		return "" // the dial says why
	}
	return conf.forwardAgent()
}

func (c *config) forwardAgent() string {
	if v := c.first("forwardagent"); v != "no" && v != "false" {
		return v
	}
	return ""
}

// forwardedAgent is the socket of the agent that is forwarded to the target of conf, empty for none.
func (o *Options) forwardedAgent(conf *config) string {
	switch v := conf.forwardAgent(); v {
	case "":
		return ""
	case "yes", "true":
		return o.agentPath(conf, conf.first("identityagent"))
	default:
		return o.agentPath(conf, v)
	}
}

// lendAgent answers the channels that the server opens to the user's agent. Over a master that is the master's work.
func (c *Conn) lendAgent(path string) {
	asked := c.client.HandleChannelOpen("auth-agent@openssh.com")
	c.work.Go(func() {
		for open := range asked {
			agent, err := net.Dial("unix", path)
			if err != nil {
				open.Reject(xssh.ConnectionFailed, "no agent")
				continue
			}
			ch, reqs, err := open.Accept()
			if err != nil {
				agent.Close()
				continue
			}
			go xssh.DiscardRequests(reqs) // ends with the channel
			c.work.Go(func() { join(ch, agent) })
		}
	})
}

// join copies both ways until both have ended.
func join(a xssh.Channel, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { io.Copy(b, a); b.Close() })
	both.Go(func() { io.Copy(a, b); a.Close() })
	both.Wait()
}
