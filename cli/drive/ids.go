package drive

import (
	"fmt"
	"strings"

	"kolu/daemon/kaval"
)

// NoMatchError says that a query names no terminal.
type NoMatchError struct {
	Query string
	// List is the command that shows the terminals there are.
	List string
}

func (e *NoMatchError) Error() string {
	return fmt.Sprintf("no terminal matching %q — `%s` shows the live ones", shown(e.Query), e.List)
}

// shown is a query as far as an error repeats it.
func shown(query string) string {
	const most = 64
	if len(query) <= most {
		return query
	}
	return strings.ToValidUTF8(query[:most], "") + "…"
}

// AmbiguousError says that a query names several terminals.
type AmbiguousError struct {
	Query string
	IDs   []kaval.TerminalID
}

func (e *AmbiguousError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q matches %d terminals — type more characters:", shown(e.Query), len(e.IDs))
	for _, id := range e.IDs {
		b.WriteString("\n  " + id.Short())
	}
	return b.String()
}

// Resolve finds the one terminal that query names: the exact id, else the only one that begins with it, whatever the case. An
// empty query names nothing. list is the command to point to when nothing matches.
func Resolve(ids []kaval.TerminalID, query, list string) (kaval.TerminalID, error) {
	var found []kaval.TerminalID
	for _, id := range ids {
		if string(id) == query && query != "" {
			return id, nil
		}
		if query != "" && len(id) >= len(query) && strings.EqualFold(string(id[:len(query)]), query) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", &NoMatchError{Query: query, List: list}
	case 1:
		return found[0], nil
	}
	return "", &AmbiguousError{Query: query, IDs: found}
}
