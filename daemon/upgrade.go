package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Upgrade is how a daemon lets another build take its place in the same process, so that its children, its socket and whatever else
// the system gave it stay. POST /v1/upgrade asks for it. The daemon comes to rest and writes its state to a file without a name; the
// other build is asked to read that in a child process; only then does this process become the other build, which reads the file and
// goes on, and which gives the answer. Whatever fails before that changes nothing.
type Upgrade struct {
	// Freeze brings the daemon's own work to rest. Its error is given as it is, with the code of Code.
	Freeze func(ctx context.Context) (Frozen, error)
	// Args are the arguments that make the same daemon of the other build. "--check-handoff FD" is added for the check, "--handoff FD"
	// for the real thing; see [OpenHandoff] and [Approve].
	Args []string
	// Code is the problem code of an error of Freeze and of Frozen.
	Code func(error) string
}

// Frozen is work at rest.
type Frozen interface {
	// Save writes the state.
	Save(w io.Writer) error
	// Leave ends streams and takes in what is on its way; it gives what must be known besides the state. Nothing may change after that.
	Leave(ctx context.Context) (last any, err error)
	// Files are what must stay open.
	Files() []syscall.Conn
	// Thaw goes on as if nothing had been. It is called when the other build did not take over.
	Thaw()
}

// UpgradeRequest is the body of POST /v1/upgrade. The answer is the hello of the build that took over.
type UpgradeRequest struct {
	// Executable is the absolute path of the other build, as the daemon's command.
	Executable string `json:"executable"`
}

const (
	handoffMagic = "kolu handoff 1\n"
	// checkTimeout is how long the other build may take to read the state, while everything rests.
	checkTimeout = 20 * time.Second
	// UpgradeFailed is the problem code for a build that cannot take over; nothing has changed.
	UpgradeFailed = "upgrade-failed"
)

// handoffTail follows the state.
type handoffTail struct {
	StateRoot string          `json:"stateRoot"`
	Socket    string          `json:"socket"`
	StartedAt int64           `json:"startedAt"`
	Listener  int             `json:"listener"`
	Reply     int             `json:"reply"`
	Files     []int           `json:"files"` // all that stay open, but for the file itself
	Guard     int             `json:"guard,omitempty"`
	Last      json.RawMessage `json:"last"`
}

func (t *tenure) upgrade(w http.ResponseWriter, r *http.Request) {
	var req UpgradeRequest
	if err := ReadJSON(r.Body, &req); err != nil {
		WriteProblem(w, http.StatusBadRequest, "invalid", "read request: "+err.Error())
		return
	}
	if err := checkExecutable(req.Executable); err != nil {
		WriteProblem(w, http.StatusBadRequest, "invalid", err.Error())
		return
	}
	if !t.upgrading.TryLock() {
		WriteProblem(w, http.StatusConflict, "refused", "another upgrade is under way")
		return
	}
	defer t.upgrading.Unlock()
	t.tending.Lock() // the home stays where it is
	defer t.tending.Unlock()
	u := &upgrading{tenure: t, executable: req.Executable}
	defer u.undo()
	if code, err := u.prepare(r.Context()); err != nil {
		t.Log.Warn("upgrade refused", "executable", req.Executable, "err", err)
		WriteProblem(w, http.StatusConflict, code, err.Error())
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		WriteProblem(w, http.StatusInternalServerError, "internal", err.Error())
		return
	}
	defer conn.Close()
	err = u.exec(context.WithoutCancel(r.Context()), r.Context().Err, conn)
	t.Log.Error("upgrade failed", "executable", req.Executable, "err", err)
	answerProblem(conn, "upgrade-failed", "the new build could not be started, everything is as it was: "+err.Error())
}

func checkExecutable(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("executable %q is not an absolute path", path)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("executable: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("executable %s is no file", path)
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return fmt.Errorf("executable %s: %w", path, err)
	}
	return nil
}

// upgrading is one upgrade under way.
type upgrading struct {
	*tenure
	executable string
	file       *os.File
	frozen     Frozen
	open       []syscall.Conn // kept open for the other build
	paused     *listener
}

// undo goes on as if nothing had been.
func (u *upgrading) undo() {
	for _, f := range u.open {
		_, _ = keepOpen(f, false) // it is closed, or will be when this process ends
	}
	if u.paused != nil {
		u.paused.resume()
	}
	if u.frozen != nil {
		u.frozen.Thaw()
	}
	if u.file != nil {
		u.file.Close()
	}
}

// prepare brings everything to rest, saves it, and has the other build read it.
func (u *upgrading) prepare(ctx context.Context) (code string, err error) {
	if u.frozen, err = u.Upgrade.Freeze(ctx); err != nil {
		u.frozen = nil
		return u.Upgrade.Code(err), err
	}
	if u.file, err = memfile(u.home.Dir); err != nil {
		return "internal", fmt.Errorf("make a file for the state: %w", err)
	}
	_, err = io.WriteString(u.file, handoffMagic)
	if err == nil {
		err = u.frozen.Save(u.file)
	}
	if err != nil {
		return "internal", fmt.Errorf("save state: %w", err)
	}
	if err := u.check(ctx); err != nil {
		return UpgradeFailed, fmt.Errorf("%s cannot take over, everything is as it was: %w", u.executable, err)
	}
	return "", nil
}

// check asks the other build to read the state.
func (u *upgrading) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	stdout, stderr := &tail{limit: 64 << 10}, &tail{limit: 4 << 10}
	cmd := exec.CommandContext(ctx, u.executable)
	cmd.Args = append(append([]string{u.Home.Kind.Name}, u.Upgrade.Args...), "--check-handoff", "3")
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = []*os.File{u.file}, stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("it did not answer within %v", checkTimeout)
		}
		if said := strings.TrimSpace(string(stderr.data)); said != "" {
			return fmt.Errorf("%w: %s", err, said)
		}
		return err
	}
	var h Hello
	if err := json.Unmarshal(stdout.data, &h); err != nil || h.Daemon != u.Home.Kind.Name {
		return fmt.Errorf("it is no %s", u.Home.Kind.Name)
	}
	if major(h.Contract) != major(u.Contract) {
		return fmt.Errorf("it speaks contract %s, this one speaks %s", h.Contract, u.Contract)
	}
	return nil
}

func major(contract string) string {
	m, _, _ := strings.Cut(contract, ".")
	return m
}

// tail keeps the last bytes of what is written to it.
type tail struct {
	data  []byte
	limit int
}

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if extra := len(t.data) - t.limit; extra > 0 {
		t.data = append(t.data[:0], t.data[extra:]...)
	}
	return len(p), nil
}

// Approve is the answer to "--check-handoff": this build has read the state and can take over.
func Approve(w io.Writer, kind Kind, contract, build string) error {
	return json.NewEncoder(w).Encode(Hello{Daemon: kind.Name, Contract: contract, Build: build})
}

// exec becomes the other build, or says why not. ended says whether this daemon has been told to end, which comes first.
func (u *upgrading) exec(ctx context.Context, ended func() error, reply net.Conn) error {
	u.paused = u.listening()
	u.paused.pause()
	last, err := u.frozen.Leave(ctx)
	if err != nil {
		return err
	}
	u.requests.settle(lastWords)
	tail := handoffTail{StateRoot: u.home.StateRoot, Socket: u.home.Socket(), StartedAt: u.self.StartedAt, Guard: u.guard}
	if tail.Last, err = json.Marshal(last); err != nil {
		return err
	}
	keep := func(f syscall.Conn) (fd int) {
		if err != nil {
			return -1
		}
		u.open = append(u.open, f)
		fd, err = keepOpen(f, true)
		tail.Files = append(tail.Files, fd)
		return fd
	}
	answer, ok := reply.(syscall.Conn)
	if !ok {
		return errors.New("the connection has no descriptor")
	}
	tail.Listener, tail.Reply = keep(u.paused.UnixListener), keep(answer)
	for _, f := range u.frozen.Files() {
		keep(f)
	}
	if err != nil {
		return err
	}
	if err := json.NewEncoder(u.file).Encode(tail); err != nil {
		return err
	}
	u.open = append(u.open, u.file)
	fd, err := keepOpen(u.file, true)
	if err != nil {
		return err
	}
	if err := ended(); err != nil {
		return err
	}
	u.Log.Info("becoming another build", "executable", u.executable)
	args := append(append([]string{u.Home.Kind.Name}, u.Upgrade.Args...), "--handoff", strconv.Itoa(fd))
	return &os.PathError{Op: "exec", Path: u.executable, Err: syscall.Exec(u.executable, args, os.Environ())}
}

// keepOpen says whether a file stays open when this process becomes another program, and gives its descriptor.
func keepOpen(f syscall.Conn, keep bool) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	number, flags, inner := -1, unix.FD_CLOEXEC, error(nil)
	if keep {
		flags = 0
	}
	err = raw.Control(func(fd uintptr) {
		number = int(fd)
		_, inner = unix.FcntlInt(fd, unix.F_SETFD, flags)
	})
	return number, errors.Join(err, inner)
}

func answerProblem(conn net.Conn, code, detail string) {
	body, _ := json.Marshal(problem{Code: code, Detail: detail, Status: http.StatusConflict}) // plain strings encode
	writeAnswer(conn, http.StatusConflict, problemType, body)
}

// writeAnswer answers the one request of a connection that no server looks after.
func writeAnswer(conn net.Conn, status int, contentType string, body []byte) {
	resp := http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {contentType}},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Close: true,
	}
	_ = conn.SetWriteDeadline(time.Now().Add(lastWords))
	_ = resp.Write(conn) // who asked may have gone
}

// requests counts the requests under way.
type requests struct {
	mu      sync.Mutex
	count   int
	changed chan struct{} // while someone waits; closed when one ends
}

func (r *requests) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.add(1)
		defer r.add(-1)
		next.ServeHTTP(w, req)
	})
}

func (r *requests) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count += n
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// settle waits until no request but one is under way, at most for limit: some wait for this very daemon to go on.
func (r *requests) settle(limit time.Duration) {
	enough := time.NewTimer(limit)
	defer enough.Stop()
	for {
		changed := r.change()
		if changed == nil {
			return
		}
		select {
		case <-changed:
		case <-enough.C:
			return
		}
	}
}

func (r *requests) change() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count <= 1 {
		return nil
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}
