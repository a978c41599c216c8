package padi

import (
	"context"
	"errors"
)

// CodeTree reads the repositories of a padi's machine, on request and never by itself. Repo in every request is the absolute path of a
// directory in a checkout; Path is relative to the top of that checkout, with slashes. What is too long comes cut, and says so.
//
// The errors: ErrNoRepo where Repo is in no repository, ErrOutside for a path that leads out of it or into .git, ErrFileGone for one that
// is not there, ErrGitFailed with git's words, ErrNoGit where there is no git program, ErrNoBase where origin was never fetched.
type CodeTree interface {
	// Files lists the tracked files and those that git would track; with Ignored instead what git ignores, a directory that is
	// ignored as a whole as one entry.
	Files(ctx context.Context, req FilesRequest) (FileList, error)
	// Directory lists one directory, also what git ignores.
	Directory(ctx context.Context, req PathRequest) (FileList, error)
	File(ctx context.Context, req PathRequest) (File, error)
	GitStatus(ctx context.Context, req GitStatusRequest) (GitStatus, error)
	GitDiff(ctx context.Context, req GitDiffRequest) (GitDiff, error)
}

// The errors of reading repositories.
var (
	ErrNoRepo    = errors.New("not in a git repository")
	ErrOutside   = errors.New("path is not one of the checkout")
	ErrFileGone  = errors.New("no such file")
	ErrGitFailed = errors.New("git failed")
	ErrNoGit     = errors.New("no git program on this machine")
	ErrNoBase    = errors.New("origin has no branch to compare with: fetch it first")
)

// FilesRequest asks for the files of a checkout.
type FilesRequest struct {
	Repo    string `json:"repo"`
	Ignored bool   `json:"ignored,omitempty"`
}

// PathRequest names a file or directory of a checkout; an empty Path is its top.
type PathRequest struct {
	Repo string `json:"repo"`
	Path string `json:"path,omitempty"`
}

// FileList is names: of files, and with a slash at the end of directories.
type FileList struct {
	Paths     []string `json:"paths"`
	Truncated bool     `json:"truncated,omitempty"`
}

// MaxFile is the most bytes of a file that are read.
const MaxFile = 1 << 20

// File is what a file holds. Encoding is "utf-8", or "base64" where Content would not be text.
type File struct {
	Path      string `json:"path"`
	Size      int64  `json:"size"` // of the whole file, in bytes
	Encoding  string `json:"encoding"`
	Content   string `json:"content"`
	Truncated bool   `json:"truncated,omitempty"` // Content is the first MaxFile bytes
	// Tag is the same for the same whole content, whenever it was written; empty for a file over 64 MiB.
	Tag string `json:"tag,omitempty"`
}

// DiffMode says what a checkout is compared with: its last commit, or where its branch left that of origin.
type DiffMode string

// The modes; empty means Local.
const (
	Local  DiffMode = "local"
	Branch DiffMode = "branch"
)

// GitStatusRequest asks which files differ.
type GitStatusRequest struct {
	Repo string   `json:"repo"`
	Mode DiffMode `json:"mode,omitempty"`
}

// GitStatus is how a checkout differs. With Local, Branch and WorkingTree are set; with Branch, Base is, or null where there is no
// origin (then there are no Files).
type GitStatus struct {
	Mode        DiffMode     `json:"mode"`
	Files       []FileChange `json:"files"` // by path
	Truncated   bool         `json:"truncated,omitempty"`
	Branch      *BranchState `json:"branch,omitempty"`
	WorkingTree *TreeState   `json:"workingTree,omitempty"`
	Base        *DiffBase    `json:"base,omitempty"`
}

// FileChange is one file that differs: M modified, A added, D deleted, R renamed, C copied, T its type changed, U unmerged, ? untracked.
type FileChange struct {
	Path    string `json:"path"`
	Status  string `json:"status"`
	OldPath string `json:"oldPath,omitempty"` // with R and C
}

// BranchState is a branch and how far it is from its upstream. Name is "HEAD" when detached.
type BranchState struct {
	Name     string `json:"name"`
	Head     string `json:"head,omitempty"` // the commit; empty before the first
	Upstream string `json:"upstream,omitempty"`
	Ahead    int    `json:"ahead"`
	Behind   int    `json:"behind"`
}

// TreeState counts the files that differ.
type TreeState struct {
	Staged    int `json:"staged"`
	Modified  int `json:"modified"`
	Untracked int `json:"untracked"`
}

// DiffBase is what a branch is compared with.
type DiffBase struct {
	Ref string `json:"ref"`
	SHA string `json:"sha"` // where the branch left Ref
}

// GitDiffRequest asks how one file differs. A rename needs OldPath.
type GitDiffRequest struct {
	Repo    string   `json:"repo"`
	Path    string   `json:"path"`
	OldPath string   `json:"oldPath,omitempty"`
	Mode    DiffMode `json:"mode,omitempty"`
}

// GitDiff is how one file differs. A name is empty where there is no file on that side.
type GitDiff struct {
	OldFileName string   `json:"oldFileName,omitempty"`
	NewFileName string   `json:"newFileName,omitempty"`
	Hunks       []string `json:"hunks"` // at most one: the diff as git prints it
	Binary      bool     `json:"binary,omitempty"`
	Truncated   bool     `json:"truncated,omitempty"`
}
