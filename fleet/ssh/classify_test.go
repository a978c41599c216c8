package ssh

import (
	"errors"
	"strings"
	"testing"

	"kolu/internal/fault"
)

func TestClassify(t *testing.T) {
	names := []string{"h", "10.0.0.1"}
	changed := `@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
The fingerprint for the ED25519 key sent by the remote host is
SHA256:abc.
Offending ED25519 key in /home/u/.ssh/known_hosts:7
Host key for h has changed and you have requested strict checking.
Host key verification failed.
`
	for _, c := range []struct {
		name, stderr string
		code         fault.Code
		who          fault.Who
		says         string
		dropped      bool
	}{
		{"name", "ssh: Could not resolve hostname h: Name or service not known\r\n", fault.Unresolved, fault.Host, "Name or service not known", false},
		{"name of a hop", "ssh: Could not resolve hostname bastion: Name or service not known\nConnection closed by UNKNOWN port 65535\n", fault.Unresolved, fault.Hop, "bastion", false},
		{"refused", "ssh: connect to host 10.0.0.1 port 22: Connection refused\r\n", fault.Unreachable, fault.Host, "port 22: Connection refused", false},
		{"hop refused", "ssh: connect to host 10.9.9.9 port 22: Connection refused\nConnection closed by UNKNOWN port 65535\n", fault.Unreachable, fault.Hop, "10.9.9.9", false},
		{"no route", "ssh: connect to host h port 22: No route to host", fault.Unreachable, fault.Host, "No route", false},
		{"key", "u@h: Permission denied (publickey,password).\n", fault.Auth, fault.Host, "permission denied (publickey,password)", false},
		{"key at hop", "u@bastion: Permission denied (publickey).\nConnection closed by UNKNOWN port 65535\n", fault.Auth, fault.Hop, "bastion", false},
		{"too many keys", "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures\nDisconnected from 10.0.0.1 port 22\n", fault.Auth, fault.Host, "IdentitiesOnly", false},
		{"unknown key", "No ED25519 host key is known for h and you have requested strict checking.\nHost key verification failed.\n", fault.HostKeyUnknown, fault.Host, "ssh h", false},
		{"unknown key of a hop", "No ED25519 host key is known for bastion and you have requested strict checking.\nHost key verification failed.\nConnection closed by UNKNOWN port 65535\n", fault.HostKeyUnknown, fault.Hop, "ssh bastion", false},
		{"changed", changed, fault.HostKeyChanged, fault.Host, "known_hosts:7", false},
		{"changed shows", changed, fault.HostKeyChanged, fault.Host, "SHA256:abc", false},
		{"revoked", "@ WARNING: REVOKED HOST KEY DETECTED! @\nHost key verification failed.\n", fault.HostKeyChanged, fault.Host, "revoked", false},
		{"penalty", "kex_exchange_identification: banner line 0: Not allowed at this time\n", fault.Penalised, fault.Host, "wait", false},
		{"dropped", "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by 10.0.0.1 port 22\r\n", fault.Unreachable, fault.Host, "dropped", true},
		{"reset", "kex_exchange_identification: read: Connection reset by peer\n", fault.Unreachable, fault.Host, "dropped", true},
		{"banner", "Connection timed out during banner exchange\nConnection to 10.0.0.1 port 22 timed out\n", fault.Unreachable, fault.Host, "said nothing", false},
		{"behind a hop", "channel 0: open failed: connect failed: No route to host\nstdio forwarding failed\nConnection closed by UNKNOWN port 65535\n", fault.Unreachable, fault.Host, "jump host", false},
		{"config", "/home/u/.ssh/config: line 3: Bad configuration option: colour\n/home/u/.ssh/config: terminating, 1 bad configuration options\n", fault.ConfigError, fault.Local, "line 3", false},
		{"silence", "", fault.Unreachable, fault.Host, "without a word", false},
		{"something new", "the dog ate it\n", fault.Unreachable, fault.Host, "the dog ate it", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := classify(c.stderr, names)
			err := named(f, "h")
			if f.Code != c.code || f.Who != c.who || !strings.Contains(err.Error(), c.says) || errors.Is(err, ErrDropped) != c.dropped {
				t.Errorf("got %s by %s: %v (dropped %v)", f.Code, f.Who, err, errors.Is(err, ErrDropped))
			}
			if strings.Contains(err.Error(), "HOST") || strings.Contains(err.Error(), "$") || strings.ContainsAny(err.Error(), "\r\n\x1b") {
				t.Errorf("unclean: %q", err.Error())
			}
		})
	}
}
