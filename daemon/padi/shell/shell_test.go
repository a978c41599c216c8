package shell_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"kolu/daemon/padi/shell"
)

// hang bounds each wait for output; it says only that nothing will come any more.
const hang = 30 * time.Second

// session is a real shell on a real terminal, started by its plan in a home of its own.
type session struct {
	t     *testing.T
	home  string
	tools string
	dir   string // the private directory
	tty   *os.File

	mu   sync.Mutex
	more *sync.Cond
	out  bytes.Buffer
	eof  bool
	from int
}

var shells = []string{"bash", "zsh", "fish"}

func eachShell(t *testing.T, test func(t *testing.T, sh string)) {
	for _, sh := range shells {
		t.Run(sh, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(sh)
			if err != nil {
				t.Fatalf("%s is not installed, and the tests need it", sh)
			}
			test(t, path)
		})
	}
}

// start runs the shell with rc as the user's own start-up file.
func start(t *testing.T, path string, rc map[string]string, env ...string) *session {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, home: filepath.Join(root, "home"), tools: filepath.Join(root, "tools"), dir: filepath.Join(root, "private dir")}
	s.more = sync.NewCond(&s.mu)
	for name, text := range rc {
		s.write(filepath.Join(s.home, name), text)
	}
	for _, dir := range []string{s.home, s.tools, s.dir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	plan := shell.For(path)
	for _, f := range plan.Files {
		s.write(filepath.Join(s.dir, f.Name), f.Content)
	}
	cmd := exec.Command(path)
	cmd.Dir = s.home
	cmd.Args = nil
	for _, a := range plan.Argv {
		cmd.Args = append(cmd.Args, strings.ReplaceAll(a, "{dir}", s.dir))
	}
	cmd.Env = append([]string{
		"HOME=" + s.home, "PATH=" + s.tools + ":/usr/bin:/bin", "TERM=xterm-256color", "LANG=C.UTF-8", "SHELL=" + path,
		"KOLU_TERMINAL_TOOLS_PATH=" + s.tools,
	}, env...)
	for k, v := range plan.Env {
		cmd.Env = append(cmd.Env, k+"="+strings.ReplaceAll(v, "{dir}", s.dir))
	}
	s.run(cmd)
	s.await(plan.Ready)
	return s
}

func (s *session) run(cmd *exec.Cmd) {
	s.t.Helper()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 200, Rows: 50})
	if err != nil {
		s.t.Fatal(err)
	}
	s.tty = tty
	read := make(chan struct{})
	go func() {
		defer close(read)
		s.read()
	}()
	s.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		tty.Close()
		<-read
	})
}

func (s *session) read() {
	buf := make([]byte, 4096)
	for {
		n, err := s.tty.Read(buf)
		s.mu.Lock()
		s.out.Write(buf[:n])
		s.eof = err != nil
		s.more.Broadcast()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// await waits for output that matches, after what was awaited before, and gives the match with its groups.
func (s *session) await(pattern string) []string {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	late := time.AfterFunc(hang, func() {
		s.mu.Lock()
		s.eof = true
		s.mu.Unlock()
		s.more.Broadcast()
	})
	defer late.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		rest := s.out.Bytes()[s.from:]
		if m := re.FindSubmatchIndex(rest); m != nil {
			var groups []string
			for i := 0; i < len(m); i += 2 {
				groups = append(groups, string(rest[m[i]:m[i+1]]))
			}
			s.from += m[1]
			return groups
		}
		if s.eof {
			s.t.Fatalf("no output matches %s in %q", pattern, rest)
		}
		s.more.Wait()
	}
}

// enter types a line at the prompt and waits for the next prompt; it gives what came in between.
func (s *session) enter(line string) string {
	s.t.Helper()
	s.mu.Lock()
	from := s.from
	s.mu.Unlock()
	if _, err := fmt.Fprintf(s.tty, "%s\r", line); err != nil {
		s.t.Fatal(err)
	}
	s.await(`\x1b\]133;A\x07`)
	s.await(`\x1b\[\?2004h`)
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.out.Bytes()[from:s.from])
}

func (s *session) write(path, text string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// told are the command lines that the shell told of.
func told(out string) []string {
	var lines []string
	for _, m := range regexp.MustCompile(`\x1b\]633;E;([^\x07]*)\x07`).FindAllStringSubmatch(out, -1) {
		lines = append(lines, m[1])
	}
	return lines
}

// rc are start-up files that say the user's own words and do what such files do to PATH.
func rcFor(sh, extra string) map[string]string {
	if strings.HasSuffix(sh, "fish") {
		return map[string]string{".config/fish/config.fish": "set -gx MINE yes\nset -gx PATH /usr/bin /bin\n" + extra}
	}
	text := "MINE=yes\nexport PATH=/opt/none::/usr/bin:/bin\n" + extra
	if strings.HasSuffix(sh, "zsh") {
		return map[string]string{".zshenv": "FROM_ENV=1\n", ".zshrc": text}
	}
	return map[string]string{".bashrc": text, ".bash_profile": ". ~/.bashrc\n"}
}

func TestToolsStayInFrontOfTheUsersPath(t *testing.T) {
	eachShell(t, func(t *testing.T, sh string) {
		s := start(t, sh, rcFor(sh, ""))
		out := s.enter(`printf '<%s>' "$MINE"; sh -c 'printf "<%s>" "$PATH"'`)
		if !strings.Contains(out, "<yes><"+s.tools+":") {
			t.Errorf("the user's file or the tools are missing: %q", out)
		}
		if strings.Count(out, s.tools) != 1 || strings.Contains(out, "::") {
			t.Errorf("PATH has the tools twice or an empty entry: %q", out)
		}
	})
}

func TestPromptsTellTheDirectory(t *testing.T) {
	eachShell(t, func(t *testing.T, sh string) {
		s := start(t, sh, nil)
		dir := filepath.Join(s.home, "a dir; ünd 100%")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		out := s.enter("cd 'a dir; ünd 100%'")
		want := "/a%20dir%3B%20%C3%BCnd%20100%25\x07"
		if !regexp.MustCompile(`\x1b\]7;file://[^/]*` + regexp.QuoteMeta(s.home+want)).MatchString(out) {
			t.Errorf("no OSC 7 for %s in %q", dir, out)
		}
		if !regexp.MustCompile(`\x1b\][02];[^\x07]*100%[^\x07]*\x07`).MatchString(out) {
			t.Errorf("no title with the directory in %q", out)
		}
	})
}

func TestCommandsAreTold(t *testing.T) {
	eachShell(t, func(t *testing.T, sh string) {
		s := start(t, sh, rcFor(sh, "HISTCONTROL=ignorespace\n[ -n \"${ZSH_VERSION-}\" ] && setopt histignorespace\n:\n"))
		for _, tc := range []struct {
			line string
			want []string
		}{
			{`true one`, []string{`true one`}},
			{`true 'a;b' "c\d"`, []string{`true 'a\x3bb' "c\\d"`}},
			{` true secret`, nil},
			{``, nil},
			{`true ünd 2`, []string{`true ünd 2`}},
		} {
			out := s.enter(tc.line)
			if got := told(out); fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("%q told %q, want %q (of %q)", tc.line, got, tc.want, out)
			}
		}
	})
}

func TestTheTitleIsTheCommandWhileItRuns(t *testing.T) {
	eachShell(t, func(t *testing.T, sh string) {
		s := start(t, sh, nil)
		out := s.enter(`true 'long enough'`)
		if !regexp.MustCompile(`\x1b\][02];[^\x07]*true[^\x07]*\x07`).MatchString(out) {
			t.Errorf("no title with the command in %q", out)
		}
	})
}

var escapes = regexp.MustCompile(`\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()=>].?`)

func TestNothingOfOursShows(t *testing.T) {
	eachShell(t, func(t *testing.T, sh string) {
		s := start(t, sh, nil)
		s.enter(`true first`)
		out := s.enter(map[string]string{"bash": "history", "zsh": "fc -l 1", "fish": "history"}[filepath.Base(sh)])
		if !strings.Contains(out, "true first") {
			t.Errorf("the history lacks what was typed: %q", out)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if all := escapes.ReplaceAllString(s.out.String(), ""); strings.Contains(strings.ToLower(all), "kolu") {
			t.Errorf("something of ours is visible: %q", all)
		}
	})
}

// start waits for the sign that the shell reads; nobody who turned the marking of pastes off must wait for it in vain.
func TestABashThatMarksNoPastesTellsWhenItReads(t *testing.T) {
	for name, rc := range map[string]map[string]string{
		"by a start-up file": {".bashrc": "bind 'set enable-bracketed-paste off'\n"},
		"by inputrc":         {".inputrc": "set enable-bracketed-paste off\n", ".bashrc": ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath("bash")
			if err != nil {
				t.Fatal("bash is not installed, and the tests need it")
			}
			s := start(t, path, rc)
			if _, err := fmt.Fprint(s.tty, "echo $((40+2))\r"); err != nil {
				t.Fatal(err)
			}
			s.await(`42\r\n\x1b\]133;A`)
			s.mu.Lock()
			defer s.mu.Unlock()
			if out := s.out.String(); strings.Contains(out, "\x1b[?2004h") {
				t.Errorf("pastes are marked all the same: %q", out)
			}
		})
	}
}

func TestTheUsersOwnHooksRun(t *testing.T) {
	extra := map[string]string{
		"bash": "PROMPT_COMMAND='printf \"<mine:%s>\" $?'\nPS0='<before>'\n",
		"zsh":  "precmd() { printf '<mine:%s>' $? }\npreexec() { printf '<before>' }\n",
		"fish": "function mine --on-event fish_prompt; printf '<mine:%s>' $status; end\n" +
			"function before --on-event fish_preexec; printf '<before>'; end\n",
	}
	eachShell(t, func(t *testing.T, sh string) {
		name := filepath.Base(sh)
		s := start(t, sh, rcFor(sh, extra[name]))
		out := s.enter(`false`)
		if !strings.Contains(out, "<before>") || !strings.Contains(out, "<mine:1>") {
			t.Errorf("the user's hooks did not run with their status: %q", out)
		}
		if out := s.enter(`echo "status <$` + map[string]string{"bash": "?", "zsh": "?", "fish": "status"}[name] + `>"`); !strings.Contains(out, "status <1>") &&
			name != "fish" { // the user's own handler above changes it in fish
			t.Errorf("the status of the last command is lost: %q", out)
		}
	})
}

func TestAShellWithinIsTheUsersOwn(t *testing.T) {
	for name, tc := range map[string]struct{ line, want string }{
		"bash": {`PROMPT_COMMAND=x bash --norc --noprofile -c 'echo "<${PS0-}>"'; env | grep -c -e ^PROMPT_COMMAND -e ^PS0`, "<>\r\n0\r\n"},
		"zsh":  {`zsh -fc 'print -r -- "<${ZDOTDIR-none}>"'`, "<none>"},
		"fish": {`fish --no-config -c 'echo "<$KOLU_FISH_INIT>"'`, "<>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(name)
			if err != nil {
				t.Fatal(err)
			}
			s := start(t, path, nil)
			if out := escapes.ReplaceAllString(s.enter(tc.line), ""); !strings.Contains(out, tc.want) {
				t.Errorf("got %q, want %q in it", out, tc.want)
			}
		})
	}
}

// In zsh the user's files may be somewhere else, and the history must not land in a directory that is removed.
func TestZshKeepsZdotdirAndHistory(t *testing.T) {
	path, err := exec.LookPath("zsh")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, path, map[string]string{
		".zshenv":   "ZDOTDIR=$HOME/z\n",
		"z/.zshrc":  "MINE=elsewhere\nHISTFILE=${ZDOTDIR:-$HOME}/.hist\n",
		"z/.zlogin": "LOGGED=in\n",
	})
	out := s.enter(`print -r -- "<$MINE $LOGGED $ZDOTDIR $HISTFILE>"`)
	if want := fmt.Sprintf("<elsewhere in %s/z %s/z/.hist>", s.home, s.home); !strings.Contains(out, want) {
		t.Errorf("got %q, want %q in it", out, want)
	}
}

// A history that another shell writes into must not be told as this one's commands.
func TestBashTellsOnlyItsOwnCommands(t *testing.T) {
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, path, map[string]string{
		".bashrc": "HISTCONTROL=ignorespace\nPROMPT_COMMAND='history -a; history -n'\n", ".bash_profile": ". ~/.bashrc\n",
	})
	s.enter("true mine")
	s.write(filepath.Join(s.home, ".bash_history"), "true mine\ntrue of another shell\n")
	s.enter(" true hidden")
	if got := told(s.enter(" true hidden too")); len(got) != 0 {
		t.Errorf("told %q", got)
	}
}

func TestAnUnknownShellIsStartedPlainly(t *testing.T) {
	plan := shell.For("/opt/bin/nu")
	if len(plan.Argv) != 1 || plan.Argv[0] != "/opt/bin/nu" || plan.Files != nil || plan.Env != nil || plan.Ready != "" {
		t.Errorf("plan is %+v", plan)
	}
}
