package ssh

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// readConfig fills c from the configuration files where no ssh program can be asked. It knows Host, Include and the keywords
// that native dials use; a Match block other than "all" and "host" is left out with a warning.
func (o *Options) readConfig(c *config) error {
	r := configReader{c: c, home: c.home}
	for _, f := range o.configFiles() {
		r.on = true
		if err := r.file(f, 8); err != nil && (o.configFile() != "" || !os.IsNotExist(err)) {
			return fmt.Errorf("read ssh configuration: %w", err)
		}
	}
	c.defaults()
	return nil
}

func (c *config) defaults() {
	set := func(key string, values ...string) {
		if len(c.values[key]) == 0 {
			c.values[key] = values
		}
	}
	set("hostname", c.target.Host)
	set("identityfile", "~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519")
	set("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2")
	set("globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2")
	set("stricthostkeychecking", "ask")
	if c.target.User != "" {
		c.values["user"] = []string{c.target.User}
	}
	if c.target.Port != "" {
		c.values["port"] = []string{c.target.Port}
	}
	if strings.Contains(c.first("hostname"), "%") {
		c.values["hostname"] = []string{strings.NewReplacer("%h", c.target.Host, "%n", c.target.Host, "%%", "%").Replace(c.first("hostname"))}
	}
}

type configReader struct {
	c    *config
	home string
	on   bool // the block that is being read applies
}

// many are the keywords whose values add up; of the others the first counts.
var many = map[string]bool{"identityfile": true, "certificatefile": true}

func (r *configReader) file(name string, depth int) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		key, value := keyword(line)
		switch key {
		case "":
		case "host":
			r.on = matchList(words(value), r.c.target.Host)
		case "match":
			r.match(words(value), fmt.Sprintf("%s:%d", name, n))
		case "include":
			r.include(name, value, depth)
		default:
			if r.on && (many[key] || len(r.c.values[key]) == 0) {
				r.c.values[key] = append(r.c.values[key], value)
			}
		}
	}
	return nil
}

func (r *configReader) include(name, value string, depth int) {
	on := r.on
	for _, pattern := range words(value) {
		for _, f := range include(name, pattern, r.home) {
			if depth > 0 && on {
				r.file(f, depth-1) // a file that vanished is as good as empty
			}
			r.on = on
		}
	}
}

func (r *configReader) match(args []string, where string) {
	switch {
	case len(args) == 1 && strings.EqualFold(args[0], "all"):
		r.on = true
	case len(args) == 2 && strings.EqualFold(args[0], "host"):
		r.on = matchList(strings.Split(args[1], ","), r.c.hostname())
	case len(args) == 2 && strings.EqualFold(args[0], "originalhost"):
		r.on = matchList(strings.Split(args[1], ","), r.c.target.Host)
	default:
		r.on = false
		r.c.warnings = append(r.c.warnings, where+": this Match needs the ssh program and was left out")
	}
}

// keyword splits a line at its keyword, lower-cased; the key is empty for comments.
func keyword(line string) (key, value string) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return "", ""
	}
	i := strings.IndexAny(line, " \t=")
	if i < 0 {
		return strings.ToLower(line), ""
	}
	value = strings.TrimSpace(line[i:])
	value = strings.TrimSpace(strings.TrimPrefix(value, "="))
	return strings.ToLower(line[:i]), strings.TrimSpace(unquote(value))
}

func unquote(s string) string {
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' && strings.Count(s, `"`) == 2 {
		return s[1 : len(s)-1]
	}
	return s
}

func words(s string) []string {
	out := strings.Fields(s)
	for i := range out {
		out[i] = strings.Trim(out[i], `"`)
	}
	return out
}

// matchList reports whether a list of patterns, some negated with "!", takes name.
func matchList(patterns []string, name string) bool {
	found := false
	for _, p := range patterns {
		not, isNot := strings.CutPrefix(p, "!")
		if !wild(strings.ToLower(not), strings.ToLower(name)) {
			continue
		}
		if isNot {
			return false
		}
		found = true
	}
	return found
}

// wild matches "*" and "?"; brackets and backslashes are plain characters.
func wild(pattern, name string) bool {
	pattern = strings.NewReplacer(`\`, `\\`, "[", `\[`, "/", "\x00").Replace(pattern)
	ok, err := filepath.Match(pattern, strings.ReplaceAll(name, "/", "\x00"))
	return ok && err == nil
}
