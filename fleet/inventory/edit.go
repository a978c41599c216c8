package inventory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Errors of changes.
var (
	ErrExists = errors.New("is listed already")
	ErrNone   = errors.New("is not listed")
	// ErrByHand is for a file that says the same in a way that cannot be changed line by line.
	ErrByHand = errors.New("the file is written in a way that kolu does not change; change it by hand")
)

// Add lists a host. It wraps ErrExists when there is one of that name.
func Add(ctx context.Context, path string, h Host) error {
	if h.SSH == "" {
		h.SSH = h.Name
	}
	if err := h.check(); err != nil {
		return fmt.Errorf("add host: %w", err)
	}
	return change(ctx, path, func(text string, hosts []Host) (string, []Host, error) {
		if index(hosts, h.Name) >= 0 {
			return "", nil, fmt.Errorf("add host: %s %w", h.Name, ErrExists)
		}
		if h.Groups == nil {
			h.Groups = []string{}
		}
		return withBlock(text, h), append(hosts, h), nil
	})
}

// Remove takes a host off the list. It wraps ErrNone when there is none of that name. Comments on lines of their own stay.
func Remove(ctx context.Context, path, name string) error {
	return change(ctx, path, func(text string, hosts []Host) (string, []Host, error) {
		i := index(hosts, name)
		if i < 0 {
			return "", nil, fmt.Errorf("remove host: %s %w", name, ErrNone)
		}
		return withoutBlock(text, name), slices.Delete(hosts, i, i+1), nil
	})
}

// Rename gives a host another name; it stays the same machine, in the same groups.
func Rename(ctx context.Context, path, from, to string) error {
	if err := CheckName(to); err != nil {
		return fmt.Errorf("rename host: %w", err)
	}
	return change(ctx, path, func(text string, hosts []Host) (string, []Host, error) {
		i := index(hosts, from)
		switch {
		case i < 0:
			return "", nil, fmt.Errorf("rename host: %s %w", from, ErrNone)
		case index(hosts, to) >= 0:
			return "", nil, fmt.Errorf("rename host: %s %w", to, ErrExists)
		}
		h := hosts[i]
		hosts[i].Name = to
		return renamed(text, h, to), hosts, nil
	})
}

func index(hosts []Host, name string) int {
	return slices.IndexFunc(hosts, func(h Host) bool { return h.Name == name })
}

// change edits the file under a lock and replaces it in one step. edit gives the new text and what it must mean; a text that means
// anything else is not written.
func change(ctx context.Context, path string, edit func(text string, hosts []Host) (string, []Host, error)) error {
	if path == "" {
		return errors.New("no place for the list of hosts: neither XDG_CONFIG_HOME nor HOME is set")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("change hosts: %w", err)
	}
	unlock, err := lock(ctx, path+".lock")
	if err != nil {
		return fmt.Errorf("change hosts: %w", err)
	}
	defer unlock()
	for {
		text, err := read(path)
		if err != nil {
			return fmt.Errorf("change hosts: %w", err)
		}
		hosts, _, err := parse(text)
		if err != nil {
			return fmt.Errorf("change hosts: %s: %w", path, err)
		}
		changed, want, err := edit(text, hosts)
		if err != nil {
			return err
		}
		if got, _, err := parse(changed); err != nil || !same(got, want) || inline.MatchString(text) {
			return fmt.Errorf("change hosts: %s: %w", path, ErrByHand)
		}
		switch err := replace(path, text, changed); {
		case errors.Is(err, errMeanwhile) && ctx.Err() == nil:
		case err != nil:
			return fmt.Errorf("change hosts: %w", err)
		default:
			return nil
		}
	}
}

// inline is a table of hosts that TOML does not let be added to further down.
var inline = regexp.MustCompile(`(?m)^[ \t]*(hosts|"hosts"|'hosts')[ \t]*=`)

func same(a, b []Host) bool {
	return len(a) == len(b) && (len(a) == 0 || reflect.DeepEqual(a, b))
}

var errMeanwhile = errors.New("the file was changed meanwhile")

// replace puts text in the place of old, which an editor may have changed since it was read. A symbolic link stays one.
func replace(path, old, text string) error {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) {
		real, err = path, nil
	}
	if err != nil {
		return err
	}
	mode := os.FileMode(0o600)
	if info, err := os.Stat(real); err == nil {
		mode = info.Mode().Perm()
	}
	tmp, err := os.CreateTemp(filepath.Dir(real), ".hosts-*.toml")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // it is gone where all went well
	_, err = tmp.WriteString(text)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	if now, err := read(path); err != nil || now != old {
		return errors.Join(err, errMeanwhile)
	}
	if err := os.Rename(tmp.Name(), real); err != nil {
		return err
	}
	return syncDir(filepath.Dir(real))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// withBlock is text with the lines of one more host at its end.
func withBlock(text string, h Host) string {
	var b strings.Builder
	b.WriteString(text)
	if text != "" && !strings.HasSuffix(text, "\n") {
		b.WriteString("\n")
	}
	if text != "" {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "[%s]\n", toml.Key{"hosts", h.Name})
	if h.SSH != h.Name {
		fmt.Fprintf(&b, "ssh = %s\n", quoted(h.SSH))
	}
	if len(h.Groups) > 0 {
		words := make([]string, len(h.Groups))
		for i, g := range h.Groups {
			words[i] = quoted(g)
		}
		fmt.Fprintf(&b, "groups = [%s]\n", strings.Join(words, ", "))
	}
	return b.String()
}

// quoted is a string of TOML; hosts and groups hold no control characters.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// header gives the key of a line that begins a table.
func header(line string) (toml.Key, bool) {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "[") {
		return nil, false
	}
	var any map[string]any
	md, err := toml.Decode(line, &any)
	if err != nil || len(md.Keys()) == 0 {
		return nil, false
	}
	keys := md.Keys()
	return keys[len(keys)-1], true
}

func about(key toml.Key, name string) bool {
	return len(key) >= 2 && key[0] == "hosts" && key[1] == name
}

// withoutBlock leaves out the lines of a host, but no line that is only a comment. At the end of the file the blank line before it goes
// as well, so that adding and removing leaves nothing.
func withoutBlock(text, name string) string {
	var b strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		if key, ok := header(line); ok {
			inside = about(key, name)
		}
		if !inside || strings.HasPrefix(strings.TrimSpace(line), "#") {
			b.WriteString(line)
		}
	}
	if left := b.String(); inside && strings.HasSuffix(left, "\n\n") {
		return left[:len(left)-1]
	}
	return b.String()
}

// renamed gives the tables of a host another name, and says what ssh calls it where only the old name did.
func renamed(text string, h Host, to string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		key, ok := header(line)
		if !ok || !about(key, h.Name) {
			b.WriteString(line)
			continue
		}
		_, rest, _ := strings.Cut(line, "]")
		moved := slices.Clone(key)
		moved[1] = to
		fmt.Fprintf(&b, "[%s]%s", moved, rest)
		if len(key) == 2 && h.SSH == h.Name && !saysSSH(text, h.Name) {
			if !strings.HasSuffix(rest, "\n") {
				b.WriteString("\n")
			}
			fmt.Fprintf(&b, "ssh = %s\n", quoted(h.SSH))
		}
	}
	return b.String()
}

func saysSSH(text, name string) bool {
	var f struct {
		Hosts map[string]entry `toml:"hosts"`
	}
	_, err := toml.Decode(text, &f)
	return err == nil && f.Hosts[name].SSH != ""
}
