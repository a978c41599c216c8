package inventory

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"kolu/fleet/ssh"
)

// Selection is which hosts a command is for, as the user said it.
type Selection struct {
	Hosts  []string // names of the list, or what ssh takes; each may be several with commas
	Groups []string
	All    bool
}

// Empty reports that no host was named, so this machine is meant.
func (s Selection) Empty() bool { return len(s.Hosts) == 0 && len(s.Groups) == 0 && !s.All }

// Several reports that the words may name more than one host.
func (s Selection) Several() bool {
	names := s.Names()
	return s.All || len(s.Groups) > 0 || slices.ContainsFunc(names, func(n string) bool { return n != names[0] })
}

// Names are the words of Hosts taken apart at the commas.
func (s Selection) Names() []string {
	var names []string
	for _, word := range s.Hosts {
		for name := range strings.SplitSeq(word, ",") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// Choose gives the hosts that a selection names: those by name first, then those of the groups, then all; each once, and with
// its further names in Also where several names lead ssh to the same place. A name that is not on the list goes to ssh as it is. A
// group that no host has is an error, and so is a selection of none.
func (l List) Choose(s Selection) ([]Host, error) {
	var chosen []Host
	for _, name := range s.Names() {
		h, err := l.Resolve(name)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, h)
	}
	for _, word := range s.Groups {
		for group := range strings.SplitSeq(word, ",") {
			members, err := l.group(strings.TrimSpace(group))
			if err != nil {
				return nil, err
			}
			chosen = append(chosen, members...)
		}
	}
	if s.All {
		if len(l.Hosts) == 0 {
			return nil, errors.New("no hosts are listed — `kolu host add NAME` lists one")
		}
		chosen = append(chosen, l.Hosts...)
	}
	return collapse(chosen), nil
}

// Resolve gives the host of one name: that of the list, else one that ssh knows by it.
func (l List) Resolve(name string) (Host, error) {
	if h, ok := l.Find(name); ok {
		return h, nil
	}
	if strings.Contains(name, "/") && !strings.HasPrefix(name, "ssh://") {
		return Host{}, CheckName(name)
	}
	if _, err := ssh.ParseTarget(name); err != nil {
		return Host{}, err
	}
	return Host{Name: name, SSH: name, Groups: []string{}}, nil
}

func (l List) group(group string) ([]Host, error) {
	if err := CheckGroup(group); err != nil {
		return nil, err
	}
	var members []Host
	for _, h := range l.Hosts {
		if slices.Contains(h.Groups, group) {
			members = append(members, h)
		}
	}
	if len(members) > 0 {
		return members, nil
	}
	if known := l.Groups(); len(known) > 0 {
		return nil, fmt.Errorf("no host is in the group %s — there are %s", group, strings.Join(known, ", "))
	}
	return nil, fmt.Errorf("no host is in the group %s — `kolu host add NAME --group %s` lists one", group, group)
}

// Groups are the groups of the listed hosts, sorted.
func (l List) Groups() []string {
	var all []string
	for _, h := range l.Hosts {
		all = append(all, h.Groups...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func collapse(hosts []Host) []Host {
	var out []Host
	at := map[string]int{}
	for _, h := range hosts {
		i, seen := at[h.SSH]
		if !seen {
			at[h.SSH] = len(out)
			out = append(out, h)
			continue
		}
		if !slices.Contains(out[i].Names(), h.Name) {
			out[i].Also = append(slices.Clone(out[i].Also), h.Name)
		}
	}
	return out
}

// SplitID takes a terminal on a host, written host/id, apart. What has no slash has no host.
func SplitID(word string) (host, id string, ok bool) {
	i := strings.LastIndexByte(word, '/')
	if i < 0 {
		return "", word, false
	}
	return word[:i], word[i+1:], true
}
