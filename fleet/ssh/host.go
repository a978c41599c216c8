package ssh

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode"

	"kolu/internal/fault"
)

// Target is a host argument taken apart. User and Port are empty where the argument does not say.
type Target struct {
	User, Host, Port string
}

// String is the target as ssh takes it.
func (t Target) String() string {
	host := t.Host
	if t.User != "" {
		host = t.User + "@" + host
	}
	if t.Port == "" {
		return host
	}
	if strings.Contains(t.Host, ":") {
		host = strings.Replace(host, t.Host, "["+t.Host+"]", 1)
	}
	return "ssh://" + host + ":" + t.Port
}

// ParseTarget takes what `ssh` takes: a name or alias, user@name, an IPv6 address, or ssh://user@host:port. Everything that
// could be read as an option or by a shell is refused, and so is host:port, which ssh would take for a name. The error is
// a *fault.Error with code bad-host.
func ParseTarget(arg string) (Target, error) {
	t, err := parseTarget(arg)
	if err != nil {
		return Target{}, &fault.Error{Code: fault.BadHost, Stage: "resolve", Who: fault.Local,
			Detail: err.Error(), Remedy: "write it as you would for ssh: name, user@name or ssh://user@name:port"}
	}
	return t, nil
}

func parseTarget(arg string) (Target, error) {
	if arg == "" {
		return Target{}, fmt.Errorf("the host is empty")
	}
	if len(arg) > 512 {
		return Target{}, fmt.Errorf("the host is longer than 512 bytes")
	}
	var t Target
	rest, uri := strings.CutPrefix(arg, "ssh://")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		t.User, rest = rest[:i], rest[i+1:]
		if t.User == "" {
			return t, fmt.Errorf("host %q has an empty user", arg)
		}
	}
	if uri {
		var err error
		if t, err = parseURI(t, strings.TrimSuffix(rest, "/")); err != nil {
			return t, fmt.Errorf("host %q: %w", arg, err)
		}
	} else {
		t.Host = rest
	}
	if err := checkName("user", t.User, `\`); err != nil {
		return t, err
	}
	if err := checkName("host", t.Host, ""); err != nil {
		return t, err
	}
	if t.Host == "" {
		return t, fmt.Errorf("host %q has no name", arg)
	}
	if !uri {
		return t, checkColons(t)
	}
	return t, nil
}

func parseURI(t Target, rest string) (Target, error) {
	if user, err := url.PathUnescape(t.User); err == nil {
		t.User = user
	}
	if inner, ok := strings.CutPrefix(rest, "["); ok {
		addr, after, ok := strings.Cut(inner, "]")
		if !ok {
			return t, fmt.Errorf("a bracket is not closed")
		}
		t.Host = addr
		if after == "" {
			return t, nil
		}
		port, ok := strings.CutPrefix(after, ":")
		if !ok {
			return t, fmt.Errorf("%q after the address", after)
		}
		t.Port = port
		return t, checkPort(port)
	}
	host, port, ok := strings.Cut(rest, ":")
	t.Host, t.Port = host, port
	if !ok {
		return t, nil
	}
	return t, checkPort(port)
}

func checkPort(port string) error {
	n := 0
	for _, c := range port {
		if c < '0' || c > '9' || n > 65535 {
			return fmt.Errorf("port %q is not a number from 1 to 65535", port)
		}
		n = n*10 + int(c-'0')
	}
	if n < 1 || n > 65535 {
		return fmt.Errorf("port %q is not a number from 1 to 65535", port)
	}
	return nil
}

// unsafe are characters that a shell, a glob or our own lists would read; ssh passes the name to commands of its own.
const unsafe = "'\"`$\\;&<>|(){}[]*?!#^,"

func checkName(what, s, allowed string) error {
	if strings.HasPrefix(s, "-") {
		return fmt.Errorf("%s %q begins with a dash, which ssh would take for an option", what, s)
	}
	for _, r := range s {
		switch {
		case r == unicode.ReplacementChar:
			return fmt.Errorf("%s %q is not valid UTF-8", what, s)
		case unicode.IsSpace(r) || unicode.IsControl(r) || !unicode.IsPrint(r):
			return fmt.Errorf("%s %q holds %q", what, s, r)
		case strings.ContainsRune(unsafe, r) && !strings.ContainsRune(allowed, r):
			return fmt.Errorf("%s %q holds %q", what, s, r)
		}
	}
	return nil
}

// checkColons lets IPv6 addresses pass and refuses host:port.
func checkColons(t Target) error {
	if !strings.Contains(t.Host, ":") {
		return nil
	}
	if _, err := netip.ParseAddr(t.Host); err == nil {
		return nil
	}
	host, port, _ := strings.Cut(t.Host, ":")
	if checkPort(port) == nil && host != "" {
		return fmt.Errorf("host %q could be a name or a name with a port; with a port it is written %s",
			t.Host, Target{t.User, host, port})
	}
	return fmt.Errorf("host %q is neither a name nor an IPv6 address", t.Host)
}
