package forge

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// keepToken is how long a token is used before it is looked for again.
	keepToken = 10 * time.Minute
	// askGH bounds a question to gh, which may talk to a keyring.
	askGH = 5 * time.Second
	// maxHosts bounds gh's file.
	maxHosts = 1 << 20
	host     = "github.com"
)

// tokens finds gh's credentials: in the environment, in gh's file, or by gh itself, in this order, as gh does.
type tokens struct {
	environ []string
	mu      sync.Mutex
	token   string
	until   time.Time
}

func newTokens(environ []string) *tokens { return &tokens{environ: environ} }

func (t *tokens) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token = ""
}

// get gives a token, or a *failure that says that there is none.
func (t *tokens) get(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token != "" && time.Now().Before(t.until) {
		return t.token, nil
	}
	for _, find := range []func(context.Context) string{t.fromEnv, t.fromFile, t.fromGH} {
		if token := find(ctx); token != "" {
			t.token, t.until = token, time.Now().Add(keepToken)
			return token, nil
		}
	}
	if t.gh() == "" {
		return "", &failure{"not-installed", "no credentials for GitHub, and no gh to get them: install gh and run gh auth login"}
	}
	return "", &failure{"not-authenticated", "gh has no credentials for GitHub: run gh auth login"}
}

func (t *tokens) env(name string) string {
	for _, kv := range t.environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

func (t *tokens) fromEnv(context.Context) string {
	if token := t.env("GH_TOKEN"); token != "" {
		return token
	}
	return t.env("GITHUB_TOKEN")
}

// fromFile reads gh's hosts.yml.
func (t *tokens) fromFile(context.Context) string {
	dir := t.env("GH_CONFIG_DIR")
	if xdg := t.env("XDG_CONFIG_HOME"); dir == "" && xdg != "" {
		dir = filepath.Join(xdg, "gh")
	}
	if home := t.env("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, ".config", "gh")
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	f, err := os.Open(filepath.Join(dir, "hosts.yml"))
	if err != nil {
		return ""
	}
	defer f.Close()
	return hostToken(io.LimitReader(f, maxHosts))
}

// hostToken finds github.com's oauth_token in the YAML that gh writes: hosts at the margin, their settings one step in, accounts
// deeper. The token of the host itself, which is the active account's, stands one step in.
func hostToken(r io.Reader) string {
	inHost, step := false, 0
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), " \r")
		text := strings.TrimLeft(line, " ")
		if text == "" || text[0] == '#' {
			continue
		}
		indent := len(line) - len(text)
		key, value, _ := strings.Cut(text, ":")
		switch {
		case indent == 0:
			inHost, step = unquote(key) == host, 0
		case inHost && step == 0:
			step = indent
		}
		if inHost && indent > 0 && indent == step && unquote(key) == "oauth_token" {
			return unquote(strings.TrimSpace(value))
		}
	}
	return ""
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// fromGH asks gh, which alone can open a keyring.
func (t *tokens) fromGH(ctx context.Context) string {
	gh := t.gh()
	if gh == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, askGH)
	defer cancel()
	cmd := exec.CommandContext(ctx, gh, "auth", "token", "--hostname", host)
	cmd.Env = append(append([]string{}, t.environ...), "GH_PROMPT_DISABLED=1")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// gh is the program, empty where there is none.
func (t *tokens) gh() string {
	if gh := t.env("KOLU_GH_BIN"); gh != "" {
		return gh
	}
	return t.look("gh")
}

// look finds a program on the PATH of the environment that the credentials come from.
func (t *tokens) look(name string) string {
	for _, dir := range filepath.SplitList(t.env("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}
