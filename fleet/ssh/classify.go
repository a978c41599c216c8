package ssh

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"kolu/internal/fault"
)

// rule reads one kind of message of the ssh program. The first group of the pattern, if any, is the machine it speaks of.
type rule struct {
	pattern *regexp.Regexp
	code    fault.Code
	stage   string
	detail  string // "$2" and so on are the pattern's groups; empty means the whole match
	remedy  string
	dropped bool
}

// rules are in the order of how much they say: a message about a cause stands before one about its effects.
var rules = sync.OnceValue(func() []rule {
	return []rule{
		{re(`(?m)^\S+: (?:line \d+: )?Bad configuration option.*$|^.*terminating, \d+ bad configuration options.*$|^Bad owner or permissions on .*$|^Can't open user config file .*$|^.*: keyword .* extra arguments.*$`),
			fault.ConfigError, "resolve", "", "see what `ssh -G HOST` says", false},
		{re(`()REVOKED HOST KEY`), fault.HostKeyChanged, "auth", "the server's host key is marked as revoked in known_hosts",
			"don't connect before the host's owner has explained it", false},
		{re(`Host key for (\S+) has changed`), fault.HostKeyChanged, "auth",
			"the server shows another host key than known_hosts has",
			"ask the host's owner why; only if the change is known, remove the old line and run `ssh HOST`", false},
		{re(`()REMOTE HOST IDENTIFICATION HAS CHANGED`), fault.HostKeyChanged, "auth",
			"the server shows another host key than known_hosts has",
			"ask the host's owner why; only if the change is known, remove the old line and run `ssh HOST`", false},
		{re(`No \S+ host key is known for (\S+)`), fault.HostKeyUnknown, "auth", "the host key is not in known_hosts",
			"run `ssh HOST` once and compare the fingerprint it shows", false},
		{re(`()Host key verification failed`), fault.HostKeyUnknown, "auth", "the host key could not be verified",
			"run `ssh HOST` once and compare the fingerprint it shows", false},
		{re(`Could not resolve hostname (\S+?):? (.*)`), fault.Unresolved, "resolve", "no address for the name: $2",
			"check the spelling, or the Host entry in ~/.ssh/config", false},
		{re(`()Not allowed at this time`), fault.Penalised, "connect", "the server refuses this address for a while after failed logins",
			"wait some minutes; each further try makes it longer", false},
		{re(`(?:@(\S+): )?()Too many authentication failures`), fault.Auth, "auth", "the server refused every key it was offered before the right one came",
			"set IdentitiesOnly and IdentityFile for HOST in ~/.ssh/config", false},
		{re(`(?m)^(?:\S+@)?(\S+): (Permission denied \(.*\))`), fault.Auth, "auth", "$2",
			"", false},
		{re(`connect to host (\S+) port (\d+): (.*)`), fault.Unreachable, "connect", "port $2: $3",
			"check that the host is up and that sshd listens there", false},
		{re(`()stdio forwarding failed|()channel \d+: open failed: (.*)`), fault.Unreachable, "connect", "the jump host cannot reach it: $3",
			"check that the host is up and that the jump host may reach it", false},
		{re(`()(?i)stdio forwarding request failed`), fault.Unreachable, "connect", "the jump host cannot reach it",
			"see what `ssh HOST true` says: the host may be down, or the jump host may not lead there", false},
		{re(`()Unable to negotiate with (.*)`), fault.Unreachable, "connect", "no common algorithm with $2",
			"one of both is old; see what `ssh -v HOST` offers, and allow it for this host in ~/.ssh/config", false},
		{re(`()proxy dialer did not pass back a connection`), fault.Unreachable, "connect", "the ProxyCommand made no connection",
			"run the ProxyCommand by hand", false},
		{re(`Timeout, server (\S+) not responding|()Connection timed out during banner exchange|()banner exchange: .*timed out`),
			fault.Unreachable, "connect", "the server accepted the connection and then said nothing", "check the load of the host", false},
		{re(`()(?:kex_exchange_identification|ssh_exchange_identification|banner exchange): (.*)`), fault.Unreachable, "connect",
			"dropped before the login: $2", "try again; the server may limit how many connections start at once", true},
		{re(`()(?m)^(Connection (?:closed|reset) by .*|.*Broken pipe)$`), fault.Unreachable, "connect", "dropped before the login: $2",
			"try again; the server may limit how many connections start at once", true},
		{re(`()(Connection timed out|Operation timed out|No route to host|Network is unreachable|Connection refused)`), fault.Unreachable, "connect",
			"$2", "check that the host is up", false},
	}
})

// lazy compiles when it is first needed: a dial that goes well needs none of these, and each start of each program would pay.
func lazy(s string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return re(s) })
}

func re(s string) *regexp.Regexp { return regexp.MustCompile(s) }

// classify makes a fault of what the ssh program printed before it gave up. names are what the target is called: an error
// about any other machine is blamed on a hop.
func classify(stderr string, names []string) *fault.Error {
	stderr = strings.ReplaceAll(stderr, "\r", "")
	for _, r := range rules() {
		m := r.pattern.FindStringSubmatchIndex(stderr)
		if m == nil {
			continue
		}
		f := &fault.Error{Code: r.code, Stage: r.stage, Who: fault.Host, Remedy: r.remedy, Evidence: fault.Printable(stderr, 600)}
		f.Detail = r.detail
		if f.Detail == "" {
			f.Detail = "$0"
		}
		f.Detail = fault.Printable(string(r.pattern.ExpandString(nil, strings.NewReplacer("$0", "${0}", "$2", "${2}", "$3", "${3}").Replace(f.Detail), stderr, m)), 300)
		f.Detail = strings.ToLower(f.Detail[:1]) + f.Detail[1:]
		if r.remedy == "" {
			f.Remedy = loginRemedy(f.Detail)
		}
		switch r.code {
		case fault.ConfigError:
			f.Who = fault.Local
		default:
			blame(f, r.pattern.FindStringSubmatch(stderr), names)
		}
		if r.code == fault.HostKeyChanged {
			offending(f, stderr)
		}
		if r.dropped {
			f.Err = ErrDropped
		}
		return f
	}
	detail := fault.Printable(stderr, 200)
	if detail == "" {
		detail = "ssh gave up without a word"
	}
	return &fault.Error{Code: fault.Unreachable, Stage: "connect", Who: fault.Host, Detail: detail, Remedy: "see what `ssh HOST true` says",
		Evidence: fault.Printable(stderr, 600)}
}

// blame names the machine that a message is about, when it is not the target.
func blame(f *fault.Error, m []string, names []string) {
	if len(m) < 2 || m[1] == "" || len(names) == 0 {
		return
	}
	who := strings.Trim(strings.TrimRight(m[1], ".,:"), "[]")
	for _, n := range names {
		if strings.EqualFold(n, who) {
			return
		}
	}
	f.Who = fault.Hop
	f.Detail = fmt.Sprintf("at the hop %s: %s", fault.Printable(who, 100), f.Detail)
	f.Remedy = strings.ReplaceAll(f.Remedy, "HOST", fault.Printable(who, 100))
}

var offendingLine = lazy(`Offending \S+ key in (\S+:\d+)|Matching host key in (\S+:\d+)`)
var fingerprint = lazy(`(?s)fingerprint for the (\S+) key sent by the remote host is\s+(\S+)`)

func offending(f *fault.Error, stderr string) {
	if m := offendingLine().FindStringSubmatch(stderr); m != nil {
		f.Detail += " (" + fault.Printable(m[1]+m[2], 200) + ")"
	}
	if m := fingerprint().FindStringSubmatch(stderr); m != nil {
		f.Detail += "; it shows " + m[1] + " " + strings.TrimSuffix(m[2], ".")
	}
}
