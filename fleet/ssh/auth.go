package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// agentWithin is how long an agent may take to list its keys; a dead one is done without.
const agentWithin = 2 * time.Second

// keyring is what can be offered to a server, in the order in which it is offered.
type keyring struct {
	signers  []xssh.Signer
	agent    net.Conn // nil without one
	warnings []string
	locked   []string // key files that are encrypted and not in the agent
	hasAgent bool
}

func (k *keyring) Close() error {
	if k.agent == nil {
		return nil
	}
	return k.agent.Close()
}

// keys collects the keys for a target: configured ones first, those in the agent before those in files, then the agent's
// others unless IdentitiesOnly. Nothing asks for a passphrase.
func (o *Options) keys(ctx context.Context, c *config) *keyring {
	k := &keyring{}
	held := o.agentKeys(ctx, c, k)
	certs := readCerts(c)
	var mine []xssh.Signer
	for _, file := range c.files("identityfile") {
		pub := publicKey(file)
		if i := slices.IndexFunc(held, func(s xssh.Signer) bool { return pub != nil && same(s.PublicKey(), pub) }); i >= 0 {
			mine = append(mine, held[i])
			held = slices.Delete(held, i, i+1)
			continue
		}
		if s := k.file(file); s != nil {
			mine = append(mine, s)
		}
	}
	if !c.yes("identitiesonly") {
		mine = append(mine, held...)
	}
	for _, s := range mine {
		k.signers = append(k.signers, withCerts(s, certs)...)
		k.signers = append(k.signers, s)
	}
	return k
}

func (o *Options) agentKeys(ctx context.Context, c *config, k *keyring) []xssh.Signer {
	path := o.agentPath(c, c.first("identityagent"))
	if path == "" {
		return nil
	}
	k.hasAgent = true
	ctx, cancel := context.WithTimeout(ctx, agentWithin)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		k.warnings = append(k.warnings, "the ssh agent does not answer: "+err.Error())
		return nil
	}
	conn.SetDeadline(time.Now().Add(agentWithin))
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		conn.Close()
		k.warnings = append(k.warnings, "the ssh agent does not answer: "+err.Error())
		return nil
	}
	conn.SetDeadline(time.Time{}) // signing may wait for a touch
	k.agent = conn
	for i, signer := range signers {
		if able, ok := signer.(xssh.AlgorithmSigner); ok {
			signers[i] = patient{able, o.notice}
		}
	}
	return signers
}

// agentPath is the socket that a value of IdentityAgent or ForwardAgent names, empty for none.
func (o *Options) agentPath(c *config, value string) string {
	path := c.expand(or(value, "SSH_AUTH_SOCK"))
	switch {
	case path == "none":
		return ""
	case path == "SSH_AUTH_SOCK":
		return o.getenv(path)
	case strings.HasPrefix(path, "$"):
		return o.getenv(strings.Trim(path, "${}"))
	}
	return path
}

// touchAfter is after what time an agent that does not sign is taken to wait for the user.
const touchAfter = time.Second

// patient is a key of an agent that tells the user when it takes its time.
type patient struct {
	xssh.AlgorithmSigner
	notice func(string)
}

func (p patient) Sign(rand io.Reader, data []byte) (*xssh.Signature, error) {
	defer p.tell()()
	return p.AlgorithmSigner.Sign(rand, data)
}

func (p patient) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*xssh.Signature, error) {
	defer p.tell()()
	return p.AlgorithmSigner.SignWithAlgorithm(rand, data, algorithm)
}

func (p patient) tell() (stop func()) {
	key := p.PublicKey()
	timer := time.AfterFunc(touchAfter, func() { p.notice(waitsForTouch(key.Type() + " " + xssh.FingerprintSHA256(key))) })
	return func() { timer.Stop() }
}

// waitsForTouch is what the user reads while a key is not used yet.
func waitsForTouch(key string) string {
	return "waiting for the key " + key + ": touch it if it has a button, or look for a question of the agent"
}

// loginRemedy is what helps when a server refuses every key and would take the methods of detail.
func loginRemedy(detail string) string {
	if strings.Contains(detail, "keyboard-interactive") {
		return "check with `ssh HOST true`; a key is needed, passwords and codes are never asked for, but a connection that you have opened " +
			"is used: `ssh -M HOST` with a ControlPath in ~/.ssh/config"
	}
	return "check with `ssh HOST true`; a key is needed, passwords are never asked for"
}

// file reads a key file; one that is not there is nothing to speak of.
func (k *keyring) file(name string) xssh.Signer {
	text, err := os.ReadFile(name)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			k.warnings = append(k.warnings, "key: "+err.Error())
		}
		return nil
	}
	s, err := xssh.ParsePrivateKey(text)
	if _, locked := errors.AsType[*xssh.PassphraseMissingError](err); locked {
		k.locked = append(k.locked, name)
		return nil
	}
	if err != nil {
		k.warnings = append(k.warnings, fmt.Sprintf("key %s cannot be read: %v", name, err))
		return nil
	}
	return s
}

// publicKey is the public half of a key file, from the file beside it or from the key itself.
func publicKey(name string) xssh.PublicKey {
	if text, err := os.ReadFile(name + ".pub"); err == nil {
		if pub, _, _, _, err := xssh.ParseAuthorizedKey(text); err == nil {
			return pub
		}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	if pub, _, _, _, err := xssh.ParseAuthorizedKey(text); err == nil {
		return pub // IdentityFile may name the public key of one that an agent holds
	}
	s, err := xssh.ParsePrivateKey(text)
	if locked, ok := errors.AsType[*xssh.PassphraseMissingError](err); ok {
		return locked.PublicKey
	}
	if err != nil {
		return nil
	}
	return s.PublicKey()
}

func readCerts(c *config) []*xssh.Certificate {
	names := c.files("certificatefile")
	for _, id := range c.files("identityfile") {
		names = append(names, strings.TrimSuffix(id, filepath.Ext(".pub"))+"-cert.pub")
	}
	var out []*xssh.Certificate
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		pub, _, _, _, err := xssh.ParseAuthorizedKey(text)
		if cert, ok := pub.(*xssh.Certificate); ok && err == nil {
			out = append(out, cert)
		}
	}
	return out
}

func withCerts(s xssh.Signer, certs []*xssh.Certificate) []xssh.Signer {
	var out []xssh.Signer
	for _, cert := range certs {
		if !bytes.Equal(cert.Key.Marshal(), s.PublicKey().Marshal()) {
			continue
		}
		if cs, err := xssh.NewCertSigner(cert, s); err == nil {
			out = append(out, cs)
		}
	}
	return out
}
