package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"kolu/internal/fault"
)

// resolveWithin bounds `ssh -G`, which may run commands that the configuration names.
const resolveWithin = 5 * time.Second

// config is what ssh_config says of one target: lower-case keywords, all values in order.
type config struct {
	target   Target
	values   map[string][]string
	home     string
	user     string // of this machine
	warnings []string
}

func (c *config) first(key string) string {
	if v := c.values[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (c *config) yes(key string) bool {
	v := strings.ToLower(c.first(key))
	return v == "yes" || v == "true"
}

func (c *config) hostname() string { return or(c.first("hostname"), c.target.Host) }
func (c *config) port() string     { return or(c.first("port"), or(c.target.Port, "22")) }
func (c *config) login() string    { return or(c.first("user"), or(c.target.User, c.user)) }

func or(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

// expand replaces the tokens of a value and a leading tilde.
func (c *config) expand(s string) string {
	s = strings.NewReplacer("%%", "%", "%h", c.hostname(), "%n", c.target.Host, "%p", c.port(), "%r", c.login(),
		"%u", c.user, "%d", c.home, "%i", fmt.Sprint(os.Getuid()), "%k", or(c.first("hostkeyalias"), c.hostname())).Replace(s)
	if rest, ok := strings.CutPrefix(s, "~/"); ok {
		return filepath.Join(c.home, rest)
	}
	return s
}

// files gives the paths of a keyword that lists files, expanded; "none" gives none.
func (c *config) files(key string) []string {
	var out []string
	for _, line := range c.values[key] {
		for f := range strings.FieldsSeq(line) {
			if f = strings.Trim(f, `"`); f != "none" && f != "" {
				out = append(out, c.expand(f))
			}
		}
	}
	return out
}

// resolve asks `ssh -G`, or reads the configuration itself where there is no ssh program.
func (o *Options) resolve(ctx context.Context, t Target) (*config, error) {
	c := &config{target: t, values: map[string][]string{}, home: o.getenv("HOME")}
	if u, err := user.Current(); err == nil {
		c.user = u.Username
		c.home = or(c.home, u.HomeDir)
	}
	program, err := o.program()
	if err != nil {
		return c, o.readConfig(c)
	}
	ctx, cancel := context.WithTimeout(ctx, resolveWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append(append([]string{"-G"}, o.configArgs()...), t.args()...)...)
	cmd.Env = o.environ()
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, configFault(ctx, errs.String(), err)
	}
	for line := range strings.Lines(out.String()) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		c.values[key] = append(c.values[key], value)
	}
	return c, nil
}

func configFault(ctx context.Context, stderr string, err error) error {
	e := &fault.Error{Code: fault.ConfigError, Stage: "resolve", Who: fault.Local, Err: err,
		Detail: "ssh cannot read its configuration", Remedy: "see what `ssh -G HOST` says", Evidence: fault.Printable(stderr, 600)}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.Detail = fmt.Sprintf("ssh took longer than %s to read its configuration; a Match exec may be slow", resolveWithin)
		return e
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if text := fault.Printable(stderr, 200); text != "" {
		e.Detail += ": " + text
	}
	return e
}

// args puts the target where ssh cannot take it for an option.
func (t Target) args() []string {
	var a []string
	if t.User != "" {
		a = append(a, "-l", t.User)
	}
	if t.Port != "" {
		a = append(a, "-p", t.Port)
	}
	return append(a, "--", t.Host)
}

func (o *Options) configArgs() []string {
	if f := o.configFile(); f != "" {
		return []string{"-F", f}
	}
	return nil
}

func (o *Options) configFile() string { return or(o.ConfigFile, o.getenv("KOLU_SSH_CONFIG")) }

// configFiles are the files that ssh begins to read at.
func (o *Options) configFiles() []string {
	if f := o.configFile(); f != "" {
		return []string{f}
	}
	return []string{filepath.Join(o.getenv("HOME"), ".ssh", "config"), "/etc/ssh/ssh_config"}
}

// mentions reports whether a configuration file, or one that it includes, holds the lower-case word outside of comments. Files that cannot be
// read count as not holding it.
func mentions(files []string, word, home string, depth int) bool {
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		lower := strings.ToLower(string(text))
		if says(lower, word) {
			return true
		}
		if !says(lower, "include") {
			continue
		}
		if depth == 0 || mentions(includes(f, string(text), home), word, home, depth-1) {
			return true
		}
	}
	return false
}

// says reports whether a line that is no comment holds the word.
func says(text, word string) bool {
	if !strings.Contains(text, word) {
		return false
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.Contains(line, word) && line[0] != '#' {
			return true
		}
	}
	return false
}

// includes lists the files that a configuration names in Include lines.
func includes(file, text, home string) []string {
	var out []string
	for line := range strings.Lines(text) {
		key, value := keyword(line)
		if key != "include" {
			continue
		}
		for _, pattern := range words(value) {
			out = append(out, include(file, pattern, home)...)
		}
	}
	return out
}

func include(file, pattern, home string) []string {
	switch {
	case strings.HasPrefix(pattern, "~/"):
		pattern = filepath.Join(home, pattern[2:])
	case !filepath.IsAbs(pattern) && strings.HasPrefix(file, "/etc/ssh/"):
		pattern = filepath.Join("/etc/ssh", pattern)
	case !filepath.IsAbs(pattern):
		pattern = filepath.Join(home, ".ssh", pattern)
	}
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil
	}
	return found
}
