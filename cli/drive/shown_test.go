package drive

import (
	"strings"
	"testing"

	"kolu/daemon/kaval"
)

// A query of any length gives an error that can be read.
func TestLongQueryIsNotRepeated(t *testing.T) {
	_, err := Resolve([]kaval.TerminalID{"a"}, strings.Repeat("x", 100_000), "ls")
	if err == nil || len(err.Error()) > 200 || !strings.Contains(err.Error(), "xxx…") {
		t.Errorf("%.300v", err)
	}
}

// The flag that is wrong is the one that is named.
func TestNegativeLinesNamesTheFlag(t *testing.T) {
	n := -1
	if _, err := SnapshotRequest(true, nil, &n); err == nil || !strings.HasPrefix(err.Error(), "--lines:") {
		t.Error(err)
	}
}
