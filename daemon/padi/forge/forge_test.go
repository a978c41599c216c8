package forge

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kolu/daemon/padi"
)

// fakeAPI is GitHub in a test's hands: it answers what a test put at a path, with an ETag, and notes what it was asked.
type fakeAPI struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]any // by path, and for pulls by path and head
	asked   []string
	fresh   int // answers that were not "not modified"
	tokens  []string
	refuse  func(w http.ResponseWriter, r *http.Request) bool
}

func newAPI(t *testing.T) *fakeAPI {
	f := &fakeAPI{answers: map[string]any{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := r.URL.Path
	if head := r.URL.Query().Get("head"); head != "" {
		key += "?" + head
	}
	if page := r.URL.Query().Get("page"); page != "" && page != "1" {
		key += "#" + page
	}
	f.asked = append(f.asked, key)
	f.tokens = append(f.tokens, r.Header.Get("Authorization"))
	if f.refuse != nil && f.refuse(w, r) {
		return
	}
	answer, ok := f.answers[key]
	if !ok {
		http.Error(w, `{"message":"Not Found"}`, http.StatusNotFound)
		return
	}
	body, _ := json.Marshal(answer)
	etag := fmt.Sprintf("%q", fmt.Sprintf("%x", len(body))+string(body[:min(len(body), 8)]))
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	f.fresh++
	w.Header().Set("ETag", etag)
	w.Write(body)
}

func (f *fakeAPI) put(key string, answer any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[key] = answer
}

func (f *fakeAPI) refusing(refuse func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = refuse
}

// seen is what was asked since the last call.
func (f *fakeAPI) seen() (asked []string, fresh int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked, fresh = f.asked, f.fresh
	f.asked, f.fresh = nil, 0
	return asked, fresh
}

func (f *fakeAPI) github(t *testing.T, environ ...string) *GitHub {
	if len(environ) == 0 {
		environ = []string{"GH_TOKEN=t0ken"}
	}
	g := New(Options{Environ: environ, Version: "1", Base: f.URL})
	t.Cleanup(g.Close)
	return g
}

type obj = map[string]any

func pull(number int, state string, more obj) obj {
	p := obj{"number": number, "title": fmt.Sprint("pull ", number), "html_url": fmt.Sprint("https://github.com/o/r/pull/", number), "state": state,
		"merged_at": nil, "head": obj{"sha": fmt.Sprint("sha", number)}}
	for k, v := range more {
		p[k] = v
	}
	return p
}

func (f *fakeAPI) checks(sha string, runs []obj, statuses []obj) {
	f.put("/repos/o/r/commits/"+sha+"/check-runs", obj{"total_count": len(runs), "check_runs": runs})
	f.put("/repos/o/r/commits/"+sha+"/status", obj{"state": "x", "statuses": statuses})
}

func TestRemotes(t *testing.T) {
	for remote, want := range map[string]string{
		"https://github.com/o/r.git": "o/r", "https://github.com/o/r": "o/r", "https://GitHub.com/o/r/": "o/r", "git@github.com:o/r.git": "o/r",
		"github.com:o/r": "o/r", "ssh://git@github.com:22/o/r.git": "o/r", "git://github.com/o.x/r-1_2": "o.x/r-1_2",
		"https://gitlab.com/o/r": "", "https://github.com.evil.example/o/r": "", "https://evil.example/github.com/o/r": "",
		"git@gist.github.com:o/r": "", "https://api.github.com/o/r": "", "/srv/github.com/o/r": "", "": "", "github.com/o/r": "",
		"https://github.com/o": "", "https://github.com/../r": "", "https://github.com/o/r/x": "", "https://github.com/o/r?x=y%2f": "o/r", "git@work:o/r": "",
	} {
		if got, ok := repository(remote); got != want || ok != (want != "") {
			t.Errorf("%s is %q, want %q", remote, got, want)
		}
	}
}

func TestPullRequestAndChecks(t *testing.T) {
	pass, fail := obj{"name": "a", "status": "completed", "conclusion": "success"}, obj{"name": "b", "status": "completed", "conclusion": "timed_out"}
	skipped, runs := obj{"name": "c", "status": "completed", "conclusion": "skipped"}, obj{"name": "d", "status": "in_progress"}
	okState, badState, waits := obj{"context": "s", "state": "success"}, obj{"context": "e", "state": "error"}, obj{"context": "p", "state": "pending"}
	for name, tt := range map[string]struct {
		pulls    []obj
		runs     []obj
		statuses []obj
		want     padi.PR
	}{
		"none":                    {want: padi.PR{Kind: "absent"}},
		"open without checks":     {pulls: []obj{pull(7, "open", nil)}, want: padi.PR{Number: 7, State: "open"}},
		"open before newer":       {pulls: []obj{pull(9, "closed", nil), pull(7, "open", nil)}, want: padi.PR{Number: 7, State: "open"}},
		"newest where none open":  {pulls: []obj{pull(9, "closed", obj{"merged_at": "2026-01-01T00:00:00Z"}), pull(7, "closed", nil)}, want: padi.PR{Number: 9, State: "merged"}},
		"closed":                  {pulls: []obj{pull(7, "closed", nil)}, want: padi.PR{Number: 7, State: "closed"}},
		"all pass":                {pulls: []obj{pull(7, "open", nil)}, runs: []obj{pass, skipped}, statuses: []obj{okState}, want: padi.PR{Number: 7, State: "open", Checks: "pass"}},
		"one waits":               {pulls: []obj{pull(7, "open", nil)}, runs: []obj{pass, runs}, want: padi.PR{Number: 7, State: "open", Checks: "pending"}},
		"a status waits":          {pulls: []obj{pull(7, "open", nil)}, runs: []obj{pass}, statuses: []obj{waits, okState}, want: padi.PR{Number: 7, State: "open", Checks: "pending"}},
		"one fails beside others": {pulls: []obj{pull(7, "open", nil)}, runs: []obj{runs, fail, pass}, want: padi.PR{Number: 7, State: "open", Checks: "fail"}},
		"a status fails":          {pulls: []obj{pull(7, "open", nil)}, runs: []obj{runs}, statuses: []obj{badState}, want: padi.PR{Number: 7, State: "open", Checks: "fail"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newAPI(t)
			f.put("/repos/o/r", obj{"fork": false})
			f.put("/repos/o/r/pulls?o:feat/x y", tt.pulls)
			if tt.pulls == nil {
				f.put("/repos/o/r/pulls?o:feat/x y", []obj{})
			}
			f.checks("sha7", tt.runs, tt.statuses)
			f.checks("sha9", tt.runs, tt.statuses)
			got := f.github(t).PullRequest(t.Context(), "git@github.com:o/r.git", "feat/x y")
			if len(got.CheckRuns) != len(tt.runs)+len(tt.statuses) {
				t.Errorf("checks by themselves: %+v", got.CheckRuns)
			}
			if tt.want.Kind == "" {
				tt.want.Kind, tt.want.Title = "ok", fmt.Sprint("pull ", tt.want.Number)
				tt.want.URL = fmt.Sprint("https://github.com/o/r/pull/", tt.want.Number)
			}
			got.CheckRuns = nil
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if f.tokens[0] != "Bearer t0ken" {
				t.Errorf("asked as %q", f.tokens[0])
			}
		})
	}
}

// A pull request of a fork is in the repository that the fork comes from.
func TestPullRequestOfAFork(t *testing.T) {
	f := newAPI(t)
	f.put("/repos/me/r/pulls?me:b", []obj{})
	f.put("/repos/me/r", obj{"fork": true, "parent": obj{"full_name": "o/r"}})
	f.put("/repos/o/r/pulls?me:b", []obj{pull(7, "open", nil)})
	f.checks("sha7", nil, nil)
	if got := f.github(t).PullRequest(t.Context(), "https://github.com/me/r", "b"); got.Kind != "ok" || got.Number != 7 {
		t.Errorf("%+v", got)
	}
}

func TestManyChecksAreReadPageByPage(t *testing.T) {
	f := newAPI(t)
	f.put("/repos/o/r/pulls?o:b", []obj{pull(7, "open", nil)})
	runs := make([]obj, perPage)
	for i := range runs {
		runs[i] = obj{"name": fmt.Sprint(i), "status": "completed", "conclusion": "success"}
	}
	f.checks("sha7", runs, nil)
	f.put("/repos/o/r/commits/sha7/check-runs#2", obj{"check_runs": []obj{{"name": "last", "status": "completed", "conclusion": "failure"}}})
	if got := f.github(t).PullRequest(t.Context(), "https://github.com/o/r", "b"); got.Checks != "fail" || len(got.CheckRuns) != perPage+1 {
		t.Errorf("%s of %d", got.Checks, len(got.CheckRuns))
	}
}

// What did not change is asked for by its mark, and then nothing is sent again.
func TestUnchangedAnswersCostNothing(t *testing.T) {
	f := newAPI(t)
	f.put("/repos/o/r/pulls?o:b", []obj{pull(7, "open", nil)})
	f.checks("sha7", []obj{{"name": "a", "status": "queued"}}, nil)
	g := f.github(t)
	first := g.PullRequest(t.Context(), "https://github.com/o/r", "b")
	asked, fresh := f.seen()
	if first.Checks != "pending" || fresh != len(asked) {
		t.Fatalf("%+v with %d of %d fresh", first, fresh, len(asked))
	}
	again := g.PullRequest(t.Context(), "https://github.com/o/r", "b")
	if asked, fresh := f.seen(); fresh != 0 || len(asked) == 0 {
		t.Errorf("%d of %d answers came again", fresh, len(asked))
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Error(diff)
	}
	f.checks("sha7", []obj{{"name": "a", "status": "completed", "conclusion": "success"}}, nil)
	if got := g.PullRequest(t.Context(), "https://github.com/o/r", "b"); got.Checks != "pass" {
		t.Errorf("after a change: %+v", got)
	}
}

func answer(status int, header ...string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		return true
	}
}

func TestEveryFailureHasACode(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + closed.Addr().String()
	closed.Close()
	for name, tt := range map[string]struct {
		refuse func(http.ResponseWriter, *http.Request) bool
		base   string
		env    string
		limit  time.Duration
		want   string
	}{
		"no credentials and no gh": {env: "X=", want: "not-installed"},
		"bad credentials":          {refuse: answer(401), want: "not-authenticated"},
		"not allowed":              {refuse: answer(403), want: "forbidden"},
		"hidden":                   {refuse: answer(404), want: "forbidden"},
		"rate":                     {refuse: answer(403, "X-RateLimit-Remaining", "0"), want: "rate-limited"},
		"abuse":                    {refuse: answer(403, "Retry-After", "7"), want: "rate-limited"},
		"too many":                 {refuse: answer(429), want: "rate-limited"},
		"broken":                   {refuse: answer(500), want: "unknown"},
		"led away":                 {refuse: answer(302, "Location", "http://elsewhere.example/"), want: "unreachable"},
		"nonsense": {refuse: func(w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprint(w, "<html>")
			return true
		}, want: "unknown"},
		"nobody there": {base: nobody, want: "unreachable"},
		"silence": {refuse: func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}, limit: 50 * time.Millisecond, want: "timed-out"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newAPI(t)
			f.refusing(tt.refuse)
			if tt.env == "" {
				tt.env = "GH_TOKEN=secret"
			}
			g := f.github(t, tt.env)
			if tt.base != "" {
				g.base = tt.base
			}
			if tt.limit == 0 {
				tt.limit = time.Minute
			}
			ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
			defer cancel()
			got := g.PullRequest(ctx, "https://github.com/o/r", "b")
			if want := (padi.PR{Kind: "unavailable", Code: tt.want}); !cmp.Equal(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
	if got := newAPI(t).github(t).PullRequest(t.Context(), "https://gitlab.com/o/r", "b"); got.Kind != "unsupported" {
		t.Errorf("another forge: %+v", got)
	}
}

// While GitHub wants to be left alone nothing is asked.
func TestRateLimitIsKept(t *testing.T) {
	f := newAPI(t)
	g := f.github(t)
	f.refusing(answer(403, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Hour).Unix())))
	g.PullRequest(t.Context(), "https://github.com/o/r", "b")
	f.seen()
	f.refusing(nil)
	if got := g.PullRequest(t.Context(), "https://github.com/o/r", "other"); got.Code != "rate-limited" {
		t.Errorf("%+v", got)
	}
	if asked, _ := f.seen(); len(asked) > 0 {
		t.Errorf("asked %v all the same", asked)
	}
	for header, want := range map[string]time.Duration{"7": 7 * time.Second, "0": time.Second, "999999": time.Hour, "x": restAfter} {
		if got := rest(http.Header{"Retry-After": {header}}); got != want {
			t.Errorf("%s is %s", header, got)
		}
	}
}

// A token that may not see the checks sees the pull request.
func TestChecksThatMayNotBeSeen(t *testing.T) {
	f := newAPI(t)
	f.put("/repos/o/r/pulls?o:b", []obj{pull(7, "open", nil)})
	if got := f.github(t).PullRequest(t.Context(), "https://github.com/o/r", "b"); got.Kind != "ok" || got.Checks != "" {
		t.Errorf("%+v", got)
	}
}

func TestTokens(t *testing.T) {
	file := func(text string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "hosts.yml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	bin := t.TempDir()
	script := "#!/bin/sh\n[ \"$*\" = 'auth token --hostname github.com' ] && echo from-gh\n"
	if err := os.WriteFile(filepath.Join(bin, "gh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	refusing := filepath.Join(bin, "no-gh")
	if err := os.WriteFile(refusing, []byte("#!/bin/sh\necho 'no oauth token' >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	plain := file("github.com:\n    user: me\n    oauth_token: from-file\n    git_protocol: ssh\n")
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, ".config"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file("github.com:\n  oauth_token: 'from-home'\n"), filepath.Join(home, ".config", "gh")); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		environ    []string
		want, code string
	}{
		"environment first":    {[]string{"GITHUB_TOKEN=b", "GH_TOKEN=a", "GH_CONFIG_DIR=" + plain}, "a", ""},
		"the other name":       {[]string{"GITHUB_TOKEN=b", "GH_CONFIG_DIR=" + plain}, "b", ""},
		"file":                 {[]string{"GH_CONFIG_DIR=" + plain}, "from-file", ""},
		"file at home":         {[]string{"HOME=" + home}, "from-home", ""},
		"file before gh":       {[]string{"GH_CONFIG_DIR=" + plain, "PATH=" + bin}, "from-file", ""},
		"several accounts":     {[]string{"GH_CONFIG_DIR=" + file("other.example:\n    oauth_token: wrong\n# x\n\"github.com\":\n    users:\n        a:\n            oauth_token: not-active\n    user: b\n    oauth_token: \"active\"\n")}, "active", ""},
		"another host's":       {[]string{"GH_CONFIG_DIR=" + file("github.com:\n    user: a\nother.example:\n    oauth_token: wrong\n"), "PATH=" + bin}, "from-gh", ""},
		"keyring":              {[]string{"PATH=/nowhere:" + bin}, "from-gh", ""},
		"gh elsewhere":         {[]string{"KOLU_GH_BIN=" + filepath.Join(bin, "gh")}, "from-gh", ""},
		"gh without a login":   {[]string{"KOLU_GH_BIN=" + refusing}, "", "not-authenticated"},
		"nothing":              {[]string{"PATH=/nowhere"}, "", "not-installed"},
		"a file that is empty": {[]string{"GH_CONFIG_DIR=" + file("")}, "", "not-installed"},
	} {
		got, err := newTokens(tt.environ).get(t.Context())
		if got != tt.want || (err == nil) != (tt.code == "") || (err != nil && code(t.Context(), err) != tt.code) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A token that was replaced by a new login is found without a restart.
func TestALoginMadeAnewIsFound(t *testing.T) {
	f := newAPI(t)
	dir := t.TempDir()
	login := func(token string) {
		if err := os.WriteFile(filepath.Join(dir, "hosts.yml"), []byte("github.com:\n  oauth_token: "+token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.put("/repos/o/r", obj{})
	f.put("/repos/o/r/pulls?o:b", []obj{})
	f.refusing(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.Header.Get("Authorization"), "old") {
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		return false
	})
	login("old")
	g := f.github(t, "GH_CONFIG_DIR="+dir)
	if got := g.PullRequest(t.Context(), "https://github.com/o/r", "b"); got.Code != "not-authenticated" {
		t.Errorf("%+v", got)
	}
	login("new")
	if got := g.PullRequest(t.Context(), "https://github.com/o/r", "b"); got.Kind != "absent" {
		t.Errorf("after a login: %+v", got)
	}
}
