package kaval

import (
	"regexp"
	"strconv"
)

var versionForm = regexp.MustCompile(`^(\d{1,6})\.(\d{1,6})(\.\d+)?(-[0-9A-Za-z.-]+)?$`)

// Compatible reports whether a client that needs contract need can speak to a daemon that serves served: the same major,
// and a minor at least as new. What does not read strictly as a version is not compatible.
func Compatible(served, need string) bool {
	s, n := versionForm.FindStringSubmatch(served), versionForm.FindStringSubmatch(need)
	if s == nil || n == nil || s[1] != n[1] {
		return false
	}
	sm, _ := strconv.Atoi(s[2])
	nm, _ := strconv.Atoi(n[2])
	return sm >= nm
}
