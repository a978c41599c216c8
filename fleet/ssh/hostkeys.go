package ssh

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"kolu/internal/fault"
)

// knownKey is one line of a known_hosts file.
type knownKey struct {
	marker string // "", "cert-authority" or "revoked"
	hosts  []string
	key    xssh.PublicKey
	where  string // file:line
}

// hostKeys judges the key of one server by the user's known_hosts files.
type hostKeys struct {
	name     string // as known_hosts has it: host, [host]:port, or the HostKeyAlias
	bare     string // host or alias, the principal of a certificate
	known    []knownKey
	policy   string // of StrictHostKeyChecking: yes, ask, accept-new, no
	addTo    string // the user's first file
	warnings []string
}

func newHostKeys(c *config) *hostKeys {
	h := &hostKeys{policy: strictness(c.first("stricthostkeychecking"))}
	if alias := c.first("hostkeyalias"); alias != "" && alias != "none" {
		h.name, h.bare = strings.ToLower(alias), strings.ToLower(alias)
	} else {
		h.bare = strings.ToLower(c.hostname())
		h.name = knownhosts.Normalize(net.JoinHostPort(h.bare, c.port()))
	}
	users := c.files("userknownhostsfile")
	if len(users) > 0 {
		h.addTo = users[0]
	}
	for _, f := range append(users, c.files("globalknownhostsfile")...) {
		h.read(f)
	}
	return h
}

func strictness(value string) string {
	switch v := strings.ToLower(value); v {
	case "no", "off", "false":
		return "no"
	case "accept-new":
		return v
	case "ask", "":
		return "ask"
	}
	return "yes"
}

// read takes the lines that are for this server; one that cannot be read costs a warning and nothing else.
func (h *hostKeys) read(file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			h.warnings = append(h.warnings, "known_hosts: "+err.Error())
		}
		return
	}
	for i, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		where := fmt.Sprintf("%s:%d", file, i+1)
		marker, hosts, key, _, _, err := xssh.ParseKnownHosts(line)
		if err != nil {
			h.warnings = append(h.warnings, where+" is not a line of known_hosts and was skipped")
			continue
		}
		if matchHosts(hosts, h.name) {
			h.known = append(h.known, knownKey{marker, hosts, key, where})
		}
	}
}

// matchHosts reports whether the host field of a line is about name.
func matchHosts(hosts []string, name string) bool {
	var plain []string
	for _, p := range hosts {
		if strings.HasPrefix(p, "|1|") {
			if hashed(p, name) {
				return true
			}
			continue
		}
		if addr := strings.TrimPrefix(p, "!"); strings.HasSuffix(addr, ":22") && strings.HasPrefix(addr, "[") {
			p = strings.Replace(p, addr, knownhosts.Normalize(addr), 1)
		}
		plain = append(plain, p)
	}
	return matchList(plain, name)
}

func hashed(pattern, name string) bool {
	parts := strings.Split(pattern, "|")
	if len(parts) != 4 {
		return false
	}
	salt, err1 := base64.StdEncoding.DecodeString(parts[2])
	want, err2 := base64.StdEncoding.DecodeString(parts[3])
	if err1 != nil || err2 != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(name))
	return hmac.Equal(mac.Sum(nil), want)
}

// algorithms are those of the keys that known_hosts has, then all others: a server with several keys is asked for the one
// that can be checked.
func (h *hostKeys) algorithms() []string {
	var certs, plain []string
	for _, k := range h.known {
		switch k.marker {
		case "cert-authority":
			certs = certAlgorithms()
		case "":
			plain = append(plain, keyAlgorithms(k.key.Type())...)
		}
	}
	all := slices.Concat(certs, plain, xssh.SupportedAlgorithms().HostKeys)
	var out []string
	for _, a := range all {
		if !slices.Contains(out, a) && (certs != nil || !strings.Contains(a, "-cert-")) {
			out = append(out, a)
		}
	}
	return out
}

func certAlgorithms() []string {
	return []string{xssh.CertAlgoED25519v01, xssh.CertAlgoECDSA256v01, xssh.CertAlgoECDSA384v01, xssh.CertAlgoECDSA521v01,
		xssh.CertAlgoRSASHA512v01, xssh.CertAlgoRSASHA256v01}
}

func keyAlgorithms(keyType string) []string {
	if keyType == xssh.KeyAlgoRSA {
		return []string{xssh.KeyAlgoRSASHA512, xssh.KeyAlgoRSASHA256}
	}
	return []string{keyType}
}

// check is an xssh.HostKeyCallback.
func (h *hostKeys) check(_ string, remote net.Addr, key xssh.PublicKey) error {
	if err := h.revoked(key); err != nil {
		return err
	}
	if cert, ok := key.(*xssh.Certificate); ok {
		return h.certificate(remote, cert)
	}
	return h.plain(key)
}

func (h *hostKeys) revoked(key xssh.PublicKey) error {
	keys := []xssh.PublicKey{key}
	if cert, ok := key.(*xssh.Certificate); ok {
		keys = append(keys, cert.Key, cert.SignatureKey)
	}
	for _, k := range h.known {
		for _, shown := range keys {
			if k.marker == "revoked" && same(k.key, shown) {
				return hostKeyFault(fault.HostKeyChanged, fmt.Sprintf("the server's host key %s is marked as revoked in %s", shownAs(key), k.where),
					"don't connect before the host's owner has explained it")
			}
		}
	}
	return nil
}

func (h *hostKeys) certificate(remote net.Addr, cert *xssh.Certificate) error {
	checker := xssh.CertChecker{
		IsHostAuthority: func(auth xssh.PublicKey, _ string) bool {
			return slices.ContainsFunc(h.known, func(k knownKey) bool { return k.marker == "cert-authority" && same(k.key, auth) })
		},
		HostKeyFallback: func(string, net.Addr, xssh.PublicKey) error { return nil },
	}
	if err := checker.CheckHostKey(net.JoinHostPort(h.bare, "22"), remote, cert); err == nil {
		return nil
	} else if h.plain(cert.Key) != nil {
		f := hostKeyFault(fault.HostKeyUnknown, "the server's certificate is not accepted: "+fault.Printable(err.Error(), 200),
			"run `ssh HOST` once and see what it says")
		f.Err = err
		return f
	}
	return nil
}

func (h *hostKeys) plain(key xssh.PublicKey) error {
	var other *knownKey
	for i, k := range h.known {
		if k.marker != "" {
			continue
		}
		if same(k.key, key) {
			return nil
		}
		if k.key.Type() == key.Type() {
			other = &h.known[i]
		}
	}
	if other != nil {
		return h.changed(key, other)
	}
	return h.unknown(key)
}

func (h *hostKeys) changed(key xssh.PublicKey, other *knownKey) error {
	if h.policy == "no" {
		h.warnings = append(h.warnings, fmt.Sprintf("the host key differs from %s, and StrictHostKeyChecking is no", other.where))
		return nil
	}
	return hostKeyFault(fault.HostKeyChanged,
		fmt.Sprintf("the server shows the host key %s, but %s has %s", shownAs(key), other.where, shownAs(other.key)),
		"ask the host's owner why; only if the change is known, remove the old line and run `ssh HOST`")
}

func (h *hostKeys) unknown(key xssh.PublicKey) error {
	if h.policy != "no" && h.policy != "accept-new" {
		return hostKeyFault(fault.HostKeyUnknown, fmt.Sprintf("the host key %s is not in known_hosts", shownAs(key)),
			"run `ssh HOST` once and compare the fingerprint")
	}
	h.warnings = append(h.warnings, fmt.Sprintf("accepted the new host key %s, as StrictHostKeyChecking says", shownAs(key)))
	if h.addTo == "" || h.addTo == "/dev/null" {
		return nil
	}
	if err := appendLine(h.addTo, knownhosts.Line([]string{h.name}, key)); err != nil {
		h.warnings = append(h.warnings, "remember host key: "+err.Error())
	}
	return nil
}

func appendLine(file, line string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	lead := ""
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			lead = "\n"
		}
	}
	_, err = f.WriteString(lead + line + "\n")
	return err
}

func hostKeyFault(code fault.Code, detail, remedy string) *fault.Error {
	return &fault.Error{Code: code, Stage: "auth", Who: fault.Host, Detail: detail, Remedy: remedy}
}

func same(a, b xssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

func shownAs(key xssh.PublicKey) string { return key.Type() + " " + xssh.FingerprintSHA256(key) }
