package paditest

import (
	"regexp"
	"slices"

	"kolu/daemon/padi"
)

// makeRepo makes a repository on the machine of the workspace, says where, and removes it when its terminal ends. Without a git program it
// makes what a repository looks like.
const makeRepo = `d=$(mktemp -d /tmp/kproof.XXXXXX) && trap 'rm -rf "$d"' EXIT HUP TERM && cd "$d" || exit
if command -v git >/dev/null; then
  git init -q -b main . && echo one >file && git add file && git -c user.name=a -c user.email=a@b commit -qm one &&
  echo two >file && echo new >new && echo "repo=$(pwd -P)="
else mkdir .git && echo "ref: refs/heads/main" >.git/HEAD && echo "nogit=$(pwd -P)="
fi
cat`

var madeRepo = regexp.MustCompile(`(repo|nogit)=(/\S+)=`)

// repositories proves what a workspace can do with checkouts, where it can do anything.
func repositories(p *proof) {
	code, ok := p.Workspace.(padi.CodeTree)
	trees, alsoOK := p.Workspace.(padi.Worktrees)
	if !ok || !alsoOK {
		p.Skip("this workspace reads no repositories")
	}
	made := p.run("sh", "-c", makeRepo)
	p.says(made.ID, madeRepo.String())
	found := madeRepo.FindStringSubmatch(p.text(made.ID))
	repo := found[2]
	if found[1] == "nogit" {
		_, err := code.Files(p.ctx, padi.FilesRequest{Repo: repo})
		p.refuses("a machine without git", err, padi.ErrNoGit)
		return
	}
	checkCode(p, code, repo)
	checkWorktrees(p, trees, repo)
}

func checkCode(p *proof, code padi.CodeTree, repo string) {
	list, err := code.Files(p.ctx, padi.FilesRequest{Repo: repo})
	p.must(err)
	if !slices.Equal(list.Paths, []string{"file", "new"}) {
		p.Errorf("the files are %+v", list)
	}
	dir, err := code.Directory(p.ctx, padi.PathRequest{Repo: repo})
	p.must(err)
	if !slices.Equal(dir.Paths, []string{"file", "new"}) {
		p.Errorf("the directory has %+v", dir)
	}
	status, err := code.GitStatus(p.ctx, padi.GitStatusRequest{Repo: repo})
	p.must(err)
	if want := []padi.FileChange{{Path: "file", Status: "M"}, {Path: "new", Status: "?"}}; !slices.Equal(status.Files, want) || status.Branch.Name != "main" {
		p.Errorf("the status is %+v", status)
	}
	diff, err := code.GitDiff(p.ctx, padi.GitDiffRequest{Repo: repo, Path: "file"})
	p.must(err)
	if len(diff.Hunks) != 1 || !regexp.MustCompile(`(?m)^-one\n\+two$`).MatchString(diff.Hunks[0]) {
		p.Errorf("the diff is %+v", diff)
	}
	file, err := code.File(p.ctx, padi.PathRequest{Repo: repo, Path: "file"})
	p.must(err)
	if file.Content != "two\n" || file.Size != 4 {
		p.Errorf("the file is %+v", file)
	}
	_, err = code.File(p.ctx, padi.PathRequest{Repo: repo, Path: "../x"})
	p.refuses("a path that leads out", err, padi.ErrOutside)
	_, err = code.File(p.ctx, padi.PathRequest{Repo: repo, Path: "gone"})
	p.refuses("a file that is not there", err, padi.ErrFileGone)
	_, err = code.GitStatus(p.ctx, padi.GitStatusRequest{Repo: "/proc"})
	p.refuses("no repository", err, padi.ErrNoRepo)
}

func checkWorktrees(p *proof, trees padi.Worktrees, repo string) {
	in := p.create(padi.CreateRequest{Repo: repo, Worktree: "topic"})
	list, err := trees.Worktrees(p.ctx, repo)
	p.must(err)
	if len(list) != 2 || !list[0].Main || list[1].Path != in.Worktree.Path || !slices.Equal(list[1].Terminals, []padi.TerminalID{in.ID}) {
		p.Errorf("the worktrees are %+v", list)
	}
	remove := padi.RemoveWorktree{Repo: repo, Worktree: "topic"}
	_, err = trees.RemoveWorktree(p.ctx, remove)
	p.refuses("removing one with a terminal in it", err, padi.ErrWorktreeBusy)
	_, err = p.Workspace.Kill(p.ctx, in.ID)
	p.must(err)
	gone, err := trees.RemoveWorktree(p.ctx, remove)
	p.must(err)
	if gone.Path != in.Worktree.Path || gone.Branch != "topic" || gone.BranchKept != "" {
		p.Errorf("removed %+v", gone)
	}
	_, err = trees.RemoveWorktree(p.ctx, remove)
	p.refuses("removing it again", err, padi.ErrNoWorktree)
}
