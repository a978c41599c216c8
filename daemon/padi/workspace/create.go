package workspace

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/repo"
	"kolu/daemon/padi/shell"
	"kolu/internal/shellquote"
)

// promptTimeoutMS is how long a command waits for the shell's first prompt before it is typed ahead of it.
const promptTimeoutMS = 5000

// Create makes a terminal with the user's shell. A command in Run is typed when the shell is ready to read it.
func (w *Workspace) Create(ctx context.Context, req padi.CreateRequest) (padi.Created, error) {
	if err := checkCreate(req); err != nil {
		return padi.Created{}, err
	}
	if err := w.ready(ctx); err != nil {
		return padi.Created{}, err
	}
	if err := w.checkParent(req.Placement.Parent); err != nil {
		return padi.Created{}, err
	}
	var made padi.Created
	if req.Worktree != "" {
		wt, err := repo.Worktree(ctx, req.Repo, req.Worktree)
		if err != nil {
			return padi.Created{}, err
		}
		made.Worktree, req.CWD = &wt, wt.Path
	}
	plan, err := w.spawn(ctx, req, &made)
	if err == nil && (req.Intent != "" || req.Placement.Parent != "") {
		w.save() // kaval knows neither, so a crash right after the answer would lose them
	}
	if err == nil && len(req.Run) > 0 {
		err = w.typeCommand(ctx, plan, req.Run, &made)
	}
	if err != nil && (made.ID != "" || made.Worktree != nil) {
		err = &padi.PartialError{Landed: made, Err: err}
	}
	if err != nil {
		return padi.Created{}, err
	}
	return made, nil
}

func checkCreate(req padi.CreateRequest) error {
	switch {
	case req.Placement.Toplevel == (req.Placement.Parent != ""):
		return kaval.Invalidf("a new terminal needs a placement: either toplevel or a parent")
	case req.Worktree != "" && req.CWD != "":
		return kaval.Invalidf("a terminal in a new worktree starts there: cwd and worktree exclude each other")
	case req.Worktree != "" && req.Repo == "":
		return kaval.Invalidf("a worktree needs the repository to cut it from")
	case req.Worktree == "" && req.Repo != "":
		return kaval.Invalidf("repo goes with worktree")
	case req.Repo != "" && !filepath.IsAbs(req.Repo):
		return kaval.Invalidf("repo %q is not an absolute path", req.Repo)
	case req.CWD != "" && !filepath.IsAbs(req.CWD):
		return kaval.Invalidf("cwd %q is not an absolute path", req.CWD)
	case req.Size.Cols < 0 || req.Size.Rows < 0 || req.Size.Cols > kaval.MaxCols || req.Size.Rows > kaval.MaxRows:
		return kaval.Invalidf("a size of %d by %d is not between 1 by 1 and %d by %d", req.Size.Cols, req.Size.Rows, kaval.MaxCols, kaval.MaxRows)
	case len(req.Run) > 0 && req.Run[0] == "":
		return kaval.Invalidf("the command to run is empty")
	case slices.ContainsFunc(req.Run, func(word string) bool { return strings.ContainsRune(word, 0) }):
		return kaval.Invalidf("no shell can read the NUL in the command to run")
	}
	return nil
}

func (w *Workspace) checkParent(id padi.TerminalID) error {
	if id == "" {
		return nil
	}
	rec, ok := w.reg.record(id)
	switch {
	case !ok:
		return fmt.Errorf("terminal %s: %w", id, padi.ErrNoParent)
	case rec.State != padi.Active:
		return fmt.Errorf("terminal %s is %s: %w", id.Short(), rec.State, padi.ErrNoParent)
	}
	return nil
}

func (w *Workspace) spawn(ctx context.Context, req padi.CreateRequest, made *padi.Created) (shell.Plan, error) {
	id := padi.TerminalID(uuid.NewString())
	w.reg.expect(padi.Record{ID: id, ParentID: req.Placement.Parent, Intent: req.Intent})
	t, plan, err := w.startShell(ctx, id, req.CWD, req.Size)
	if err != nil {
		if answered(err) { // else it may have been made all the same, and is then known for what it is
			w.reg.forget(id)
		}
		return plan, err
	}
	w.reg.spawned(t)
	made.ID, made.PID = t.ID, t.PID
	return plan, nil
}

// startShell starts the user's shell on a new terminal.
func (w *Workspace) startShell(ctx context.Context, id padi.TerminalID, cwd string, size kaval.Size) (t kaval.Terminal, plan shell.Plan, err error) {
	info, err := w.opt.Kaval.Info(ctx)
	if err != nil {
		return t, plan, fmt.Errorf("ask kaval: %w", hostErr(err))
	}
	env := w.environment(info)
	plan = shell.For(env["SHELL"])
	maps.Copy(env, plan.Env)
	t, err = w.opt.Kaval.Spawn(ctx, kaval.SpawnRequest{ID: id, Argv: plan.Argv, CWD: cwd, Env: env, InitFiles: plan.Files, Size: size})
	if err != nil {
		return t, plan, fmt.Errorf("start %s: %w", plan.Argv[0], hostErr(err))
	}
	return t, plan, nil
}

// environment is that of a terminal before kaval stamps it: the allowed part of ours, what a missing login would have set, and
// what the terminal is, whatever terminal we were started from.
func (w *Workspace) environment(info kaval.Info) map[string]string {
	env := kaval.CleanEnv(w.opt.Environ)
	for k, v := range map[string]string{"SHELL": info.Shell, "HOME": info.Home, "USER": info.User, "LOGNAME": info.User} {
		if env[k] == "" && v != "" {
			env[k] = v
		}
	}
	if env["SHELL"] == "" {
		env["SHELL"] = "/bin/sh"
	}
	if w.opt.Agent != nil && env["SSH_AUTH_SOCK"] == "" {
		if agent := w.opt.Agent(); agent != "" {
			env["SSH_AUTH_SOCK"] = agent
		}
	}
	env["TERM"] = kaval.DefaultTerm
	env["COLORTERM"] = "truecolor"
	env["TERM_PROGRAM"] = "kolu"
	env["TERM_PROGRAM_VERSION"] = w.opt.Version
	env["VTE_VERSION"] = "7603"
	return env
}

// typeCommand types a command and Enter, once, when the shell reads it.
func (w *Workspace) typeCommand(ctx context.Context, plan shell.Plan, argv []string, made *padi.Created) error {
	line := shellquote.Typed(argv)
	err := w.typeLine(ctx, plan, made.ID, line)
	w.sent(ctx, padi.SendCreate, made.ID, []byte(line), err)
	if err != nil {
		return err
	}
	made.Ran = shellquote.Join(argv)
	return nil
}

// typeLine types a line and Enter, once, when the shell reads it.
func (w *Workspace) typeLine(ctx context.Context, plan shell.Plan, id padi.TerminalID, line string) error {
	if plan.Ready != "" {
		from := int64(0)
		res, err := w.opt.Kaval.Wait(ctx, id, kaval.WaitRequest{Match: plan.Ready, After: &from, TimeoutMS: promptTimeoutMS})
		if err != nil {
			return fmt.Errorf("wait for the prompt of %s: %w", id.Short(), hostErr(err))
		}
		if res.Result != kaval.Met {
			w.log.Info("command typed without a prompt", "id", id, "wait", res.Result)
		}
	}
	if err := w.opt.Kaval.Write(ctx, id, kaval.Input{Data: []byte(line + "\r")}); err != nil {
		return fmt.Errorf("type the command at %s: %w", id.Short(), hostErr(err))
	}
	return nil
}
