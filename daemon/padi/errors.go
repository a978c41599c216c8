package padi

import (
	"errors"
	"fmt"
	"strings"

	"kolu/daemon/kaval"
)

// The errors of this contract beside those of kaval, with codes that cross the wire.
var (
	ErrNoParent  = errors.New("no such parent terminal")
	ErrWorktree  = errors.New("worktree could not be made")
	ErrKavalDown = errors.New("kaval is down")
)

var codes = map[string]error{"no-parent": ErrNoParent, "worktree-failed": ErrWorktree, "kaval-down": ErrKavalDown,
	"no-backup": ErrNoBackup, "port-closed": ErrPortClosed, "no-forward": ErrNoForward,
	"no-repo": ErrNoRepo, "outside": ErrOutside, "file-gone": ErrFileGone, "git-failed": ErrGitFailed, "no-git": ErrNoGit, "no-base": ErrNoBase,
	"no-worktree": ErrNoWorktree, "worktree-dirty": ErrWorktreeDirty, "worktree-locked": ErrWorktreeLocked,
	"worktree-busy": ErrWorktreeBusy, "worktree-main": ErrWorktreeMain}

// PartialError says what a failed Create left behind, so that nothing is lost or made twice.
type PartialError struct {
	Landed Created `json:"landed"`
	Err    error   `json:"-"`
}

func (e *PartialError) Error() string {
	var landed []string
	if e.Landed.ID != "" {
		landed = append(landed, "terminal "+string(e.Landed.ID))
	}
	if e.Landed.Worktree != nil {
		landed = append(landed, "worktree "+e.Landed.Worktree.Path)
	}
	return fmt.Sprintf("%v (made before it failed: %s)", e.Err, strings.Join(landed, ", "))
}
func (e *PartialError) Unwrap() error { return e.Err }

// Code is the stable code of an error of this contract or of kaval's, or "internal".
func Code(err error) string {
	for code, sentinel := range codes {
		if errors.Is(err, sentinel) {
			return code
		}
	}
	return kaval.Code(err)
}

// FromCode makes the error for a code that came over a wire; an unknown code gives a plain error with the sentence.
func FromCode(code, detail string) error {
	if sentinel, ok := codes[code]; ok {
		return fmt.Errorf("%s%w", detail, silent{sentinel})
	}
	return kaval.FromCode(code, detail)
}

// silent keeps an error's identity without repeating its words.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }
