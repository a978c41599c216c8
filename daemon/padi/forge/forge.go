// Package forge finds the pull request of a branch, and how its checks are, at GitHub. For the workspace, which asks off its hot path. It
// uses the credentials of the gh program, and needs that program only where they are in a keyring. Start at [GitHub.PullRequest].
package forge

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"kolu/daemon/padi"
)

// Options are what a GitHub is made of.
type Options struct {
	// Environ is where credentials and gh are looked for, "K=V".
	Environ []string
	// Version is what GitHub is told we are.
	Version string
	// Base is where the API is, for tests; empty is GitHub's.
	Base string
}

// GitHub asks api.github.com. Its methods may be called concurrently.
type GitHub struct {
	base    string
	agent   string
	client  *http.Client
	tokens  *tokens
	mu      sync.Mutex
	cache   map[string]cached
	blocked time.Time // no request before, for GitHub said so
}

// New makes one; it asks nothing yet.
func New(opt Options) *GitHub {
	g := &GitHub{base: opt.Base, agent: "kolu/" + opt.Version, tokens: newTokens(opt.Environ), cache: map[string]cached{}}
	if g.base == "" {
		g.base = "https://api.github.com"
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.IdleConnTimeout = 30 * time.Second
	g.client = &http.Client{Transport: transport, CheckRedirect: sameHost}
	return g
}

// sameHost follows a repository that was renamed, and never carries the token elsewhere.
func sameHost(req *http.Request, via []*http.Request) error {
	if len(via) > 3 || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return errors.New("GitHub leads elsewhere")
	}
	return nil
}

// Close lets go of idle connections.
func (g *GitHub) Close() { g.client.CloseIdleConnections() }

// Supports reports whether a remote is at github.com.
func (g *GitHub) Supports(remote string) bool {
	_, ok := repository(remote)
	return ok
}

// repository is the owner/name of a remote at github.com. A remote of any other host, also one that only looks like it, has none.
func repository(remote string) (name string, ok bool) {
	var host, path string
	if strings.Contains(remote, "://") {
		u, err := url.Parse(remote)
		if err != nil {
			return "", false
		}
		host, path = u.Hostname(), u.Path
	} else if host, path, ok = strings.Cut(remote, ":"); ok { // user@host:path, as scp has it
		host = host[strings.LastIndexByte(host, '@')+1:]
	}
	if !strings.EqualFold(host, "github.com") {
		return "", false
	}
	path = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	owner, repo, _ := strings.Cut(path, "/")
	if !isName(owner) || !isName(repo) {
		return "", false
	}
	return owner + "/" + repo, true
}

func isName(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	})
}

// PullRequest finds the pull request whose head is the branch of the remote: an open one, else the newest. Where the remote is a fork, one in
// the repository that it comes from counts too. What went wrong is in the answer, whose Kind is then unavailable.
func (g *GitHub) PullRequest(ctx context.Context, remote, branch string) padi.PR {
	name, ok := repository(remote)
	if !ok {
		return padi.PR{Kind: "unsupported"}
	}
	pr, err := g.find(ctx, name, branch)
	if err != nil {
		return padi.PR{Kind: "unavailable", Code: code(ctx, err)}
	}
	return pr
}

func (g *GitHub) find(ctx context.Context, name, branch string) (padi.PR, error) {
	owner, _, _ := strings.Cut(name, "/")
	pull, err := g.pull(ctx, name, owner, branch)
	if err != nil {
		return padi.PR{}, err
	}
	if pull == nil {
		from, err := get[repoInfo](ctx, g, "/repos/"+name)
		if err != nil {
			return padi.PR{}, err
		}
		if from.Parent.FullName == "" {
			return padi.PR{Kind: "absent"}, nil
		}
		name = from.Parent.FullName
		if pull, err = g.pull(ctx, name, owner, branch); err != nil {
			return padi.PR{}, err
		}
	}
	if pull == nil {
		return padi.PR{Kind: "absent"}, nil
	}
	runs, err := g.checks(ctx, name, pull.Head.SHA)
	if err != nil {
		return padi.PR{}, err
	}
	return padi.PR{
		Kind: "ok", Number: pull.Number, Title: pull.Title, URL: pull.HTMLURL, State: pull.state(), Checks: fold(runs), CheckRuns: runs,
	}, nil
}

// The answers, as far as they matter.
type (
	repoInfo struct {
		Parent struct {
			FullName string `json:"full_name"`
		} `json:"parent"`
	}
	pullInfo struct {
		Number   int    `json:"number"`
		Title    string `json:"title"`
		HTMLURL  string `json:"html_url"`
		State    string `json:"state"`
		MergedAt string `json:"merged_at"`
		Head     struct {
			SHA string `json:"sha"`
		} `json:"head"`
	}
)

func (p *pullInfo) state() string {
	if p.MergedAt != "" {
		return "merged"
	}
	return p.State
}

// pull is the pull request in the repository name for the branch of an owner; nil where there is none.
func (g *GitHub) pull(ctx context.Context, name, owner, branch string) (*pullInfo, error) {
	q := url.Values{"head": {owner + ":" + branch}, "state": {"all"}, "sort": {"created"}, "direction": {"desc"}, "per_page": {"10"}}
	pulls, err := get[[]pullInfo](ctx, g, "/repos/"+name+"/pulls?"+q.Encode())
	if err != nil || len(pulls) == 0 {
		return nil, err
	}
	for i := range pulls {
		if pulls[i].State == "open" {
			return &pulls[i], nil
		}
	}
	return &pulls[0], nil
}
