// Package repo says which git repository a directory belongs to, and makes worktrees. For the workspace. [Facts] reads git's own
// files and starts no process, so it may run on every prompt; [Worktree] runs the git program.
package repo

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"kolu/daemon/padi"
)

// maxFile bounds what is read of any file of a repository.
const maxFile = 1 << 20

// layout is where the parts of a repository are. In a linked worktree gitDir and commonDir differ.
type layout struct {
	top       string // the checkout, or the repository itself where it is bare
	gitDir    string
	commonDir string
}

// Facts gives the repository that dir is in, or nil where it is in none. An error says that there is one whose files could not
// be read.
func Facts(dir string) (*padi.Git, error) {
	l, ok, err := find(dir)
	if err != nil || !ok {
		return nil, err
	}
	branch, err := headBranch(l.gitDir)
	if err != nil {
		return nil, err
	}
	remote, err := originURL(filepath.Join(l.commonDir, "config"))
	if err != nil {
		return nil, err
	}
	main := l.mainRoot()
	return &padi.Git{
		RepoRoot: l.top, RepoName: strings.TrimSuffix(filepath.Base(main), ".git"), WorktreePath: l.top, Branch: branch,
		IsWorktree: main != l.top, MainRepoRoot: main, RemoteURL: withoutCredentials(remote),
	}, nil
}

// mainRoot is the checkout that the repository was made with; a bare repository is its own.
func (l layout) mainRoot() string {
	switch {
	case l.gitDir == l.commonDir: // no linked worktree; a submodule's gitDir lies elsewhere, but its root is its checkout
		return l.top
	case filepath.Base(l.commonDir) == ".git":
		return filepath.Dir(l.commonDir)
	}
	return l.commonDir
}

// find walks up from dir. The paths it gives have their symbolic links resolved, as git shows them.
func find(dir string) (layout, bool, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return layout{}, false, nil
	}
	if err != nil {
		return layout{}, false, err
	}
	for {
		l, ok, err := at(dir)
		if ok || err != nil {
			return l, ok, err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return layout{}, false, nil
		}
		dir = parent
	}
}

func at(dir string) (layout, bool, error) {
	dotGit := filepath.Join(dir, ".git")
	info, err := os.Stat(dotGit)
	switch {
	case err == nil && info.IsDir() && isGitDir(dotGit):
		l, err := withCommon(dir, dotGit)
		return l, true, err
	case err == nil && info.Mode().IsRegular():
		return linked(dir, dotGit)
	case isBare(dir):
		top := dir
		if filepath.Base(dir) == ".git" { // inside the .git of a checkout
			top = filepath.Dir(dir)
		}
		l, err := withCommon(top, dir)
		return l, true, err
	}
	return layout{}, false, nil
}

func linked(dir, dotGit string) (layout, bool, error) {
	text, err := readLine(dotGit)
	if err != nil {
		return layout{}, false, err
	}
	target, ok := strings.CutPrefix(text, "gitdir: ")
	if !ok {
		return layout{}, false, nil
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(dir, target)
	}
	target, err = filepath.EvalSymlinks(target)
	if err != nil {
		return layout{}, false, err
	}
	l, err := withCommon(dir, target)
	return l, true, err
}

func withCommon(top, gitDir string) (layout, error) {
	l := layout{top: top, gitDir: gitDir, commonDir: gitDir}
	common, err := readLine(filepath.Join(gitDir, "commondir"))
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	if !filepath.IsAbs(common) {
		common = filepath.Join(gitDir, common)
	}
	l.commonDir, err = filepath.EvalSymlinks(common)
	return l, err
}

func isGitDir(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "HEAD"))
	return err == nil
}

func isBare(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs", "config"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// headBranch is the branch that is checked out, born or not; "HEAD" when detached; empty when the repository keeps its references
// in a form that only git can read.
func headBranch(gitDir string) (string, error) {
	text, err := readLine(filepath.Join(gitDir, "HEAD"))
	if err != nil {
		return "", err
	}
	ref, ok := strings.CutPrefix(text, "ref:")
	if !ok {
		return "HEAD", nil
	}
	branch := strings.TrimPrefix(strings.TrimSpace(ref), "refs/heads/")
	if branch == ".invalid" {
		return "", nil
	}
	return branch, nil
}

func readLine(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	text, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(text), err
}

// originURL reads the url of the remote named origin from a config file; empty if there is none.
func originURL(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, maxFile))
	lines.Buffer(nil, maxFile)
	inOrigin := false
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			inOrigin = isOrigin(line)
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		if inOrigin && strings.EqualFold(strings.TrimSpace(key), "url") {
			return configValue(value), nil
		}
	}
	return "", lines.Err()
}

func isOrigin(header string) bool {
	section, rest, _ := strings.Cut(strings.TrimPrefix(header, "["), "\"")
	name, _, _ := strings.Cut(rest, "\"")
	return strings.EqualFold(strings.TrimSpace(section), "remote") && name == "origin"
}

// configValue drops a comment, the blanks around, quotes, and the backslashes of escapes.
func configValue(s string) string {
	var b strings.Builder
	quoted, escaped := false, false
scan:
	for _, r := range strings.TrimSpace(s) {
		switch {
		case escaped:
			escaped = false
			b.WriteRune(r)
		case r == '\\':
			escaped = true
		case r == '"':
			quoted = !quoted
		case !quoted && (r == '#' || r == ';'):
			break scan
		default:
			b.WriteRune(r)
		}
	}
	return strings.TrimSpace(b.String())
}

// withoutCredentials drops the user and password of a URL. The user of an ssh address, which is no secret, stays.
func withoutCredentials(remote string) string {
	if !strings.Contains(remote, "://") {
		return remote
	}
	u, err := url.Parse(remote)
	if err != nil {
		return dropUserinfo(remote)
	}
	user := u.User.Username()
	u.User = nil
	if strings.HasSuffix(u.Scheme, "ssh") && user != "" {
		u.User = url.User(user)
	}
	return u.String()
}

// dropUserinfo is for what does not parse as a URL: everything up to the last "@" of the authority goes.
func dropUserinfo(remote string) string {
	scheme, rest, _ := strings.Cut(remote, "://")
	authority, path, slash := strings.Cut(rest, "/")
	authority = authority[strings.LastIndex(authority, "@")+1:]
	if slash {
		path = "/" + path
	}
	return scheme + "://" + authority + path
}
