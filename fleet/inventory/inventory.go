// Package inventory is the user's list of hosts: names, what ssh calls them, and groups. cli/client looks hosts up in it and
// chooses several ([List.Choose]); `kolu host` changes it ([Add], [Remove], [Rename]). It dials nothing. docs/hosts.md is the page
// for people. Start reading at [Load].
package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/BurntSushi/toml"

	"kolu/fleet/ssh"
	"kolu/internal/plainfile"
)

// HostsVar names hosts in the environment, separated by spaces or commas; they come after those of the file.
const HostsVar = "KOLU_HOSTS"

// maxSize bounds what is read; a list of a thousand hosts has a tenth of it.
const maxSize = 1 << 20

// Host is one machine.
type Host struct {
	Name   string   `json:"name"`
	SSH    string   `json:"ssh"` // what ssh is given
	Groups []string `json:"groups"`
	// Also are further names for the same SSH, where several were chosen.
	Also []string `json:"also,omitempty"`
}

// Names are all names that a host goes by, the first one first.
func (h Host) Names() []string { return append([]string{h.Name}, h.Also...) }

// List is the hosts that the user named, in the order of the file and then of the environment.
type List struct {
	Hosts []Host
	// Warnings are about what was left out of account, such as a key that this version does not know.
	Warnings []string
	path     string
}

// Path is where the file is: $XDG_CONFIG_HOME/kolu/hosts.toml, else below ~/.config. It is empty where neither is known.
func Path(getenv func(string) string) string {
	dir := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // what is not absolute is to be left out of account, says the XDG page
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "kolu", "hosts.toml")
}

// Load reads the file and the environment. A file that is not there is an empty one; one that cannot be understood is an error
// that says where, because a name could mean another machine without it.
func Load(getenv func(string) string) (List, error) {
	l := List{path: Path(getenv)}
	if l.path != "" {
		text, err := read(l.path)
		if err != nil {
			return List{}, fmt.Errorf("read hosts: %w", err)
		}
		if l.Hosts, l.Warnings, err = parse(text); err != nil {
			return List{}, fmt.Errorf("read hosts: %s: %w", l.path, err)
		}
	}
	for _, name := range strings.FieldsFunc(getenv(HostsVar), func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		if err := CheckName(name); err != nil {
			return List{}, fmt.Errorf("$%s: %w", HostsVar, err)
		}
		if _, ok := l.Find(name); !ok {
			l.Hosts = append(l.Hosts, Host{Name: name, SSH: name, Groups: []string{}})
		}
	}
	return l, nil
}

// Find gives the host with a name.
func (l List) Find(name string) (Host, bool) {
	i := slices.IndexFunc(l.Hosts, func(h Host) bool { return h.Name == name })
	if i < 0 {
		return Host{}, false
	}
	return l.Hosts[i], true
}

func read(path string) (string, error) {
	text, err := plainfile.Read(path, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

type entry struct {
	SSH    string   `toml:"ssh"`
	Groups []string `toml:"groups"`
}

// parse reads the text of a file. Keys that we don't know are a newer version's, or misspelt: they are warned about.
func parse(text string) ([]Host, []string, error) {
	var f struct {
		Hosts map[string]entry `toml:"hosts"`
	}
	md, err := toml.Decode(text, &f)
	if err != nil {
		return nil, nil, tidy(err)
	}
	if kind := md.Type("hosts"); kind != "" && kind != "Hash" {
		return nil, nil, errors.New("hosts is not a table; a host is written [hosts.NAME]")
	}
	var hosts []Host
	for _, name := range inOrder(md) {
		e := f.Hosts[name]
		h := Host{Name: name, SSH: e.SSH, Groups: e.Groups}
		if e.SSH == "" {
			h.SSH = name
		}
		if h.Groups == nil {
			h.Groups = []string{}
		}
		if err := h.check(); err != nil {
			return nil, nil, err
		}
		hosts = append(hosts, h)
	}
	var warnings []string
	for _, key := range md.Undecoded() {
		warnings = append(warnings, fmt.Sprintf("%s is not known to this version and has no effect", key))
	}
	return hosts, warnings, nil
}

// tidy says where a syntax error is, on one line.
func tidy(err error) error {
	if p, ok := errors.AsType[toml.ParseError](err); ok {
		return fmt.Errorf("line %d: %s", p.Position.Line, p.Message)
	}
	return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "toml: "))
}

func inOrder(md toml.MetaData) []string {
	var names []string
	for _, key := range md.Keys() {
		if len(key) >= 2 && key[0] == "hosts" && !slices.Contains(names, key[1]) {
			names = append(names, key[1])
		}
	}
	return names
}

func (h Host) check() error {
	if err := CheckName(h.Name); err != nil {
		return err
	}
	if _, err := ssh.ParseTarget(h.SSH); err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	for _, g := range h.Groups {
		if err := CheckGroup(g); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
	}
	return nil
}

// CheckName says why a host cannot have a name: it follows the rules for what ssh is given, and has no slash, since a terminal on a
// host is written host/id.
func CheckName(name string) error {
	if strings.Contains(name, "/") {
		return fmt.Errorf("host name %q holds a slash; a terminal on a host is written host/id", name)
	}
	if _, err := ssh.ParseTarget(name); err != nil {
		return err
	}
	return nil
}

// CheckGroup says why a group cannot have a name.
func CheckGroup(group string) error {
	const others = "._-"
	for i, r := range group {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && (i == 0 || !strings.ContainsRune(others, r)) {
			return fmt.Errorf("group %q: use letters, digits, dot, dash and underscore, and begin with a letter or digit", group)
		}
	}
	if group == "" || len(group) > 64 {
		return fmt.Errorf("group %q: want 1 to 64 bytes", group)
	}
	return nil
}
