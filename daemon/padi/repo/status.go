package repo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// maxStatus bounds what git says of the files that differ, in bytes.
const maxStatus = 4 << 20

// Status says how the checkout that req.Repo is in differs; see padi.CodeTree.
func Status(ctx context.Context, req padi.GitStatusRequest) (padi.GitStatus, error) {
	l, err := checkout(req.Repo)
	if err != nil {
		return padi.GitStatus{}, err
	}
	switch req.Mode {
	case "", padi.Local:
		return localStatus(ctx, l)
	case padi.Branch:
		return branchStatus(ctx, l)
	}
	return padi.GitStatus{}, noMode(req.Mode)
}

func noMode(mode padi.DiffMode) error {
	return kaval.Invalidf("mode %q is neither local nor branch", mode)
}

func localStatus(ctx context.Context, l layout) (padi.GitStatus, error) {
	res, err := git(ctx, l.top, maxStatus, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all")
	if err != nil {
		return padi.GitStatus{}, err
	}
	s := padi.GitStatus{Mode: padi.Local, Files: []padi.FileChange{}, Truncated: res.cut, Branch: &padi.BranchState{}, WorkingTree: &padi.TreeState{}}
	lines := fields(res)
	for i := 0; i < len(lines); i++ {
		kind, rest, _ := strings.Cut(lines[i], " ")
		switch kind {
		case "#":
			branchLine(s.Branch, rest)
		case "?":
			s.WorkingTree.Untracked++
			s.Files = append(s.Files, padi.FileChange{Path: rest, Status: "?"})
		case "u":
			s.WorkingTree.Modified++
			s.Files = append(s.Files, padi.FileChange{Path: afterFields(rest, 9), Status: "U"})
		case "1":
			s.Files = append(s.Files, padi.FileChange{Path: afterFields(rest, 7), Status: changed(rest, s.WorkingTree)})
		case "2": // what follows is the name it had
			change := padi.FileChange{Path: afterFields(rest, 8), Status: changed(rest, s.WorkingTree)}
			if i++; i < len(lines) {
				change.OldPath = lines[i]
			}
			s.Files = append(s.Files, change)
		}
	}
	sortFiles(s.Files)
	return s, nil
}

// branchLine takes one of the headers.
func branchLine(b *padi.BranchState, line string) {
	key, value, _ := strings.Cut(line, " ")
	switch key {
	case "branch.oid":
		if value != "(initial)" {
			b.Head = value
		}
	case "branch.head":
		b.Name = value
		if value == "(detached)" {
			b.Name = "HEAD"
		}
	case "branch.upstream":
		b.Upstream = value
	case "branch.ab":
		fmt.Sscanf(value, "+%d -%d", &b.Ahead, &b.Behind) // what is no number stays 0
	}
}

// changed counts a line's two letters, of the index and of the files, and gives the one to show.
func changed(line string, count *padi.TreeState) string {
	if len(line) < 2 {
		return "M"
	}
	index, files := line[:1], line[1:2]
	if index != "." {
		count.Staged++
	}
	if files != "." {
		count.Modified++
	}
	if files == "." || (files == "M" && index != ".") {
		return index
	}
	return files
}

// afterFields is what stands behind n fields: a path, with whatever blanks it has.
func afterFields(line string, n int) string {
	for range n {
		_, line, _ = strings.Cut(line, " ")
	}
	return line
}

func sortFiles(files []padi.FileChange) {
	slices.SortFunc(files, func(a, b padi.FileChange) int { return strings.Compare(a.Path, b.Path) })
}

func branchStatus(ctx context.Context, l layout) (padi.GitStatus, error) {
	s := padi.GitStatus{Mode: padi.Branch, Files: []padi.FileChange{}}
	base, err := diffBase(ctx, l)
	if err != nil || base == nil {
		return s, err
	}
	s.Base = base
	res, err := git(ctx, l.top, maxStatus, "diff", "--name-status", "-z", "--find-renames", "--no-ext-diff", base.SHA)
	if err != nil {
		return s, err
	}
	more, err := git(ctx, l.top, maxStatus, "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return s, err
	}
	s.Truncated = res.cut || more.cut
	s.Files = nameStatus(fields(res))
	for _, name := range fields(more) {
		s.Files = append(s.Files, padi.FileChange{Path: name, Status: "?"})
	}
	sortFiles(s.Files)
	return s, nil
}

// nameStatus reads letters and names in turn; R and C have two names, the old one first.
func nameStatus(parts []string) []padi.FileChange {
	files := []padi.FileChange{}
	for i := 0; i+1 < len(parts); i += 2 {
		change := padi.FileChange{Path: parts[i+1], Status: parts[i][:min(1, len(parts[i]))]}
		if change.Status == "R" || change.Status == "C" {
			if i+2 >= len(parts) {
				break
			}
			change.OldPath, change.Path = parts[i+1], parts[i+2]
			i++
		}
		files = append(files, change)
	}
	return files
}

// diffBase is where the checkout's branch left that of origin; nil where there is no origin.
func diffBase(ctx context.Context, l layout) (*padi.DiffBase, error) {
	origin, err := originURL(filepath.Join(l.commonDir, "config"))
	if err != nil {
		return nil, fmt.Errorf("%w: %v", padi.ErrGitFailed, err)
	}
	if origin == "" {
		return nil, nil
	}
	ref, err := defaultBranch(ctx, l.top)
	if err != nil {
		return nil, err
	}
	res, err := git(ctx, l.top, maxWords, "merge-base", "HEAD", "refs/remotes/"+ref)
	if saysNo(err) {
		return nil, fmt.Errorf("%w: HEAD and %s have no commit in common", padi.ErrNoBase, ref)
	}
	return &padi.DiffBase{Ref: ref, SHA: strings.TrimSpace(string(res.out))}, err
}

// defaultBranch is origin's branch that others start from, as "origin/main".
func defaultBranch(ctx context.Context, top string) (string, error) {
	for _, ref := range []string{"origin/HEAD", "origin/main", "origin/master"} {
		res, err := git(ctx, top, maxWords, "rev-parse", "--quiet", "--verify", "--abbrev-ref", "refs/remotes/"+ref)
		switch {
		case err == nil:
			return strings.TrimSpace(string(res.out)), nil
		case !saysNo(err):
			return "", err
		}
	}
	return "", padi.ErrNoBase
}

// saysNo reports whether git answered a question with no.
func saysNo(err error) bool {
	e, ok := errors.AsType[*gitError](err)
	return ok && e.code == 1
}
