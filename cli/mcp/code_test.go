package mcp

import (
	"context"
	"testing"

	"kolu/cli/clitest"
	"kolu/daemon/padi"
)

// library is a padi in memory that reads repositories.
type library struct {
	*clitest.Workspace
	asked any
	err   error
}

func (l *library) Close() error { return nil }
func (l *library) Files(_ context.Context, req padi.FilesRequest) (padi.FileList, error) {
	l.asked = req
	return padi.FileList{Paths: []string{"a"}}, l.err
}
func (l *library) Directory(context.Context, padi.PathRequest) (padi.FileList, error) {
	return padi.FileList{}, l.err
}
func (l *library) File(_ context.Context, req padi.PathRequest) (padi.File, error) {
	l.asked = req
	return padi.File{Path: req.Path, Content: "text"}, l.err
}
func (l *library) GitStatus(_ context.Context, req padi.GitStatusRequest) (padi.GitStatus, error) {
	l.asked = req
	return padi.GitStatus{Mode: req.Mode}, l.err
}
func (l *library) GitDiff(_ context.Context, req padi.GitDiffRequest) (padi.GitDiff, error) {
	l.asked = req
	return padi.GitDiff{NewFileName: req.Path}, l.err
}

func TestCodeTools(t *testing.T) {
	for _, tt := range []struct {
		tool string
		args args
		want any
	}{
		{"git_getStatus", args{"repoPath": "/r"}, padi.GitStatusRequest{Repo: "/r"}},
		{"git_getStatus", args{"repoPath": "/r", "mode": "branch"}, padi.GitStatusRequest{Repo: "/r", Mode: padi.Branch}},
		{"git_getDiff", args{"repoPath": "/r", "path": "b", "oldPath": "a"}, padi.GitDiffRequest{Repo: "/r", Path: "b", OldPath: "a"}},
		{"fs_listAll", args{"repoPath": "/r"}, padi.FilesRequest{Repo: "/r"}},
		{"fs_readFile", args{"repoPath": "/r", "path": "b"}, padi.PathRequest{Repo: "/r", Path: "b"}},
	} {
		l := &library{Workspace: fakePadi()}
		s := session(t, func(context.Context) (Conn, error) { return l, nil }, nil)
		if text, _, failed := call(t, s, tt.tool, tt.args); failed || l.asked != tt.want {
			t.Errorf("%s asked for %+v, want %+v: %s", tt.tool, l.asked, tt.want, text)
		}
		l.asked, l.err = nil, padi.ErrFileGone
		if _, facts, failed := call(t, s, tt.tool, tt.args); !failed || facts["kind"] != "file-gone" {
			t.Errorf("%s refused with %v", tt.tool, facts)
		}
		l.asked = nil
		for _, bad := range []args{{}, {"repoPath": "r", "path": "b"}, {"repoPath": 1, "path": "b"}} {
			if text, _, failed := call(t, s, tt.tool, bad); !failed || l.asked != nil {
				t.Errorf("%s with %v gave %s", tt.tool, bad, text)
			}
		}
	}
	if text, facts, failed := call(t, open(t, fakePadi()), "fs_listAll", args{"repoPath": "/r"}); !failed || facts["kind"] != "refused" {
		t.Errorf("a padi that cannot gave %s %v", text, facts)
	}
}
