package ptyhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"kolu/daemon/kaval"
	"kolu/daemon/kaval/pty"
	"kolu/internal/shellquote"
)

// maxID is the most bytes of an id, and what of a wrong one an error repeats.
const maxID = 128

// Spawn starts a program on a new terminal.
func (h *Host) Spawn(ctx context.Context, req kaval.SpawnRequest) (kaval.Terminal, error) {
	if err := check(&req); err != nil {
		return kaval.Terminal{}, err
	}
	if req.ID == "" {
		req.ID = kaval.TerminalID(uuid.NewString())
	}
	if err := h.ops.enter(ctx, nil); err != nil {
		return kaval.Terminal{}, err
	}
	defer h.ops.leave()
	if err := h.claim(ctx, req.ID); err != nil {
		return kaval.Terminal{}, err
	}
	t, err := h.start(req)
	if err != nil {
		h.unclaim(req.ID)
		return kaval.Terminal{}, err
	}
	h.add(t)
	h.unclaimed(t)
	h.mu.Lock()
	defer h.mu.Unlock()
	return t.record(time.Now()), nil
}

// claim reserves an id while its program is being started, so that of two spawns one is refused before it has any effect.
func (h *Host) claim(ctx context.Context, id kaval.TerminalID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return kaval.ErrClosing
	}
	if _, taken := h.live[id]; taken {
		return fmt.Errorf("%w: %s", kaval.ErrExists, id)
	}
	h.live[id] = nil
	h.readers.Add(1) // Close waits for spawns under way
	return nil
}

func (h *Host) unclaim(id kaval.TerminalID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.live, id)
	h.readers.Done()
}

// unclaimed ends a claim whose terminal is in the inventory; one that came too late for a Close under way is killed here.
func (h *Host) unclaimed(t *terminal) {
	h.mu.Lock()
	h.tombs.drop(t.id)
	closed := h.closed
	h.mu.Unlock()
	t.run()
	if closed {
		ctx, cancel := context.WithTimeout(context.Background(), kaval.KillDeadline)
		defer cancel()
		h.killNow(ctx, []*terminal{t})
	}
	h.readers.Done()
}

func (h *Host) start(req kaval.SpawnRequest) (*terminal, error) {
	files, err := writeInitFiles(h.opts.RunDir, req.InitFiles)
	if err != nil {
		return nil, err
	}
	argv := req.Argv
	if len(argv) == 0 {
		argv = []string{h.user.shell}
	}
	dir := cmp.Or(req.CWD, h.user.home)
	argv = files.expandAll(argv)
	proc, err := startProgram(pty.Command{
		Argv: argv, Env: h.environ(req, files), Dir: dir, Cols: req.Size.Cols, Rows: req.Size.Rows,
	})
	if err != nil {
		files.remove()
		return nil, err
	}
	t := newTerminal(h, req.ID, proc, req.Size, files)
	t.rec = kaval.Terminal{
		ID: req.ID, PID: proc.PID, CWD: dir, CommandRooted: req.CommandRooted, Cols: req.Size.Cols, Rows: req.Size.Rows,
		StartedAt: t.startedAt.UnixMilli(), ForegroundPID: proc.PID, ForegroundProcess: filepath.Base(argv[0]),
	}
	if req.CommandRooted {
		t.rec.LastCommand = shellquote.Join(argv)
	}
	return t, nil
}

func startProgram(c pty.Command) (*pty.Process, error) {
	if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%w: directory %s is not there", kaval.ErrSpawn, c.Dir)
	}
	proc, err := pty.Start(c)
	switch {
	case err == nil:
		return proc, nil
	case errors.Is(err, pty.ErrLimit):
		return nil, fmt.Errorf("%w: %w", kaval.ErrLimit, err)
	}
	return nil, fmt.Errorf("%w: %w", kaval.ErrSpawn, err)
}

// check refuses what cannot be a spawn and sets the size.
func check(req *kaval.SpawnRequest) error {
	if err := checkID(req.ID); err != nil {
		return err
	}
	if len(req.Argv) > 0 && req.Argv[0] == "" {
		return kaval.Invalidf("the program's name is empty")
	}
	for _, s := range append(slices.Clone(req.Argv), req.CWD) {
		if strings.ContainsRune(s, 0) {
			return kaval.Invalidf("an argument or the directory contains a NUL")
		}
	}
	for k, v := range req.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return kaval.Invalidf("%q cannot be an environment variable", k)
		}
	}
	if req.CWD != "" && !filepath.IsAbs(req.CWD) {
		return kaval.Invalidf("directory %q is not absolute", req.CWD)
	}
	size, err := grid(req.Size, kaval.Size{Cols: kaval.DefaultCols, Rows: kaval.DefaultRows})
	req.Size = size
	return err
}

func checkID(id kaval.TerminalID) error {
	if len(id) > maxID || id == "." || id == ".." {
		return kaval.Invalidf("%s cannot be a terminal's id", printableID(id))
	}
	for _, r := range id {
		if r <= ' ' || r >= 0x7f || r == '/' {
			return kaval.Invalidf("%s cannot be a terminal's id", printableID(id))
		}
	}
	return nil
}

// grid is the size that was asked for, with was in place of what was not, and never below the floor.
func grid(want, was kaval.Size) (kaval.Size, error) {
	if want.Cols < 0 || want.Rows < 0 || want.Cols > kaval.MaxCols || want.Rows > kaval.MaxRows {
		return was, kaval.Invalidf("size %dx%d is not within 1x1 and %dx%d", want.Cols, want.Rows, kaval.MaxCols, kaval.MaxRows)
	}
	want.Cols, want.Rows = cmp.Or(want.Cols, was.Cols), cmp.Or(want.Rows, was.Rows)
	return kaval.Size{Cols: max(want.Cols, kaval.MinCols), Rows: max(want.Rows, kaval.MinRows)}, nil
}

// environ is the environment of a new terminal: what the spawner sent, else one of the daemon's own, with the stamps that say
// which terminal this is, whatever an outer terminal had put there.
func (h *Host) environ(req kaval.SpawnRequest, files *initFiles) []string {
	env := maps.Clone(req.Env)
	if env == nil {
		env = kaval.CleanEnv(h.opts.Environ)
		delete(env, "TERM") // that of whoever started the daemon
		for k, v := range map[string]string{"HOME": h.user.home, "USER": h.user.name, "LOGNAME": h.user.name, "SHELL": h.user.shell} {
			env[k] = cmp.Or(env[k], v)
		}
	}
	for k, v := range env {
		env[k] = files.expand(v)
	}
	env["TERM"] = terminfo(env, env["TERM"])
	env["KAVAL_TERMINAL_ID"] = string(req.ID)
	stamp(env, "KAVAL_SOCKET", h.opts.Socket)
	stamp(env, "PADI_SOCKET", h.opts.PadiSocket)
	stamp(env, "KOLU_TERMINAL_TOOLS_PATH", h.opts.ToolsDir)
	env["PATH"] = kaval.PrependPath(h.opts.ToolsDir, cmp.Or(kaval.PrependPath("", env["PATH"]), kaval.BasePath))
	list := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		list = append(list, k+"="+env[k])
	}
	return list
}

// stamp sets a variable, or takes out an outer terminal's where there is nothing to say.
func stamp(env map[string]string, key, value string) {
	if value == "" {
		delete(env, key)
		return
	}
	env[key] = value
}

// terminfo is the TERM to use: the one asked for if this machine describes it, else the default.
func terminfo(env map[string]string, term string) string {
	if term == "" || term == kaval.DefaultTerm || strings.Contains(term, "/") {
		return kaval.DefaultTerm
	}
	dirs := []string{
		env["TERMINFO"], filepath.Join(env["HOME"], ".terminfo"), "/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo",
		"/usr/lib/terminfo", "/usr/local/share/terminfo", "/run/current-system/sw/share/terminfo",
	}
	for _, dir := range append(dirs, filepath.SplitList(env["TERMINFO_DIRS"])...) {
		for _, sub := range []string{term[:1], fmt.Sprintf("%x", term[0])} {
			if _, err := os.Stat(filepath.Join(dir, sub, term)); dir != "" && err == nil {
				return term
			}
		}
	}
	return kaval.DefaultTerm
}
