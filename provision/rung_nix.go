package provision

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"kolu/internal/fault"
	"kolu/provision/nix"
)

// nix puts the build into the host's store and roots it there. The path is addressed by its content, so nobody has to sign
// it or to trust the user; the store's own word is asked again once the root stands.
func (in *installer) nix(ctx context.Context) error {
	path := in.build.StorePath(in.storeDir())
	root, err := in.serve(ctx, path)
	if errors.Is(err, errCollected) { // a collection came between, where a connection allows one session at a time
		root, err = in.serve(ctx, path)
	}
	if errors.Is(err, errCollected) {
		return collected(Nix, path)
	}
	if errors.Is(err, nix.ErrNotServe) {
		in.placed.Tried = append(in.placed.Tried, Refusal{Rung: Nix, Place: in.facts.Nix.Dir, Err: asFault(err)})
		root, err = in.addFixed(ctx, path)
	}
	if err != nil {
		return err
	}
	in.placed.Bin, in.placed.Root = path+"/bin", root
	return nil
}

// errCollected is a path that went away before its root stood.
var errCollected = errors.New("the path was collected")

func collected(rung Rung, path string) error {
	return refuse(rung, path, &fault.Error{Code: fault.NixRefused, Err: errCollected, Detail: "the host collects its store, and took the path before its root stood"})
}

func (in *installer) storeDir() string {
	if dir := in.facts.Nix.Store.Dir; dir != "" {
		return dir
	}
	return usualStore
}

// serve talks to nix-store --serve --write. The lock on the path that came with the first question holds until the server ends,
// so the server is kept until the root stands.
func (in *installer) serve(ctx context.Context, path string) (root string, err error) {
	nonce := newNonce()
	cmd, err := in.start(ctx, in.serveLine(), nonce)
	if err != nil {
		return "", err
	}
	defer cmd.close()
	stdin := &moving{w: cmd.proc.Stdin(), cmd: cmd, may: cmd.quick}
	session, valid, err := nix.Open(stdin, cmd.out, path)
	if err != nil {
		return "", in.nixFault(cmd, Nix, err, session)
	}
	defer func() { in.sent.Add(session.Sent()) }()
	if !valid {
		if full := in.room(in.facts.Nix.Store); full != nil {
			return "", refuse(Nix, in.storeDir(), full)
		}
		if err := in.add(cmd, session, path); err != nil {
			return "", in.nixFault(cmd, Nix, err, session)
		}
	}
	in.placed.Rung = Nix
	if valid {
		in.placed.Rung = Valid
	}
	return in.keep(ctx, cmd, session, path)
}

func (in *installer) serveLine() string {
	return in.serving(`"` + in.facts.Nix.Dir + `/nix-store" --serve --write`)
}

func (in *installer) add(cmd *command, s *nix.Session, path string) error {
	b := in.build
	cmd.alive(cmd.send)
	return s.Add(path, b.NarHash, b.NarSize, b.tree(), func(sent int64) {
		in.progress.tell(StageSend, sent, b.NarSize)
		cmd.alive(cmd.send)
		if sent == b.NarSize {
			in.progress.tell(StageVerify, 0, 0)
			cmd.alive(cmd.verify)
		}
	})
}

// keep roots the path while the server holds it. A host that allows one session at a time gets one after the other, and is
// asked again whether the path outlived the gap.
func (in *installer) keep(ctx context.Context, cmd *command, s *nix.Session, path string) (string, error) {
	in.progress.tell(StageRoot, 0, 0)
	cmd.alive(cmd.verify)
	root, err := in.root(ctx, path)
	if err != nil {
		if _, ok := errors.AsType[*refused](err); ok || ctx.Err() != nil || errors.Is(err, errCollected) || fault.Is(err, fault.WrongArch) {
			return "", err
		}
		cmd.finish()
		return in.root(ctx, path)
	}
	cmd.alive(cmd.quick)
	switch valid, err := s.Valid(path); {
	case err != nil:
		return "", in.nixFault(cmd, Nix, err, s)
	case !valid:
		return "", refuse(Nix, path, &fault.Error{Code: fault.NixRefused, Detail: "the path went away while it was being rooted"})
	}
	cmd.finish()
	return root, nil
}

// moving counts written bytes as life.
type moving struct {
	w   io.Writer
	cmd *command
	may time.Duration // how long the host may then be silent
}

func (m *moving) Write(p []byte) (int, error) {
	n, err := m.w.Write(p)
	m.cmd.alive(m.may)
	return n, err
}

// nixFault finds the reason of a failed conversation, which is on stderr alone.
func (in *installer) nixFault(cmd *command, rung Rung, err error, s *nix.Session) error {
	err = cmd.cause(err)
	cmd.proc.Stdin().Close()
	if cmd.ctx.Err() == nil {
		cmd.finish()
	}
	cmd.proc.Close()
	if s != nil {
		s.Settle(cmd.end)
	}
	if rung == Nix && s == nil && errors.Is(err, errSilent) {
		return fmt.Errorf("%w: no greeting came", nix.ErrNotServe)
	}
	if broken := cmd.broken(err); broken != nil {
		return broken
	}
	said := cmd.said()
	if reason := in.nixReason(said); reason != nil {
		reason.Err, reason.Evidence = err, said
		return refuse(rung, in.storeDir(), reason)
	}
	if rung == Nix && (errors.Is(err, nix.ErrNotServe) || s == nil) {
		return fmt.Errorf("%w (%s)", nix.ErrNotServe, said)
	}
	return refuse(rung, in.storeDir(), &fault.Error{Code: fault.NixRefused, Err: err, Evidence: said,
		Detail: "nix-store ended without taking the build" + inBrackets(said)})
}

func inBrackets(said string) string {
	if said == "" {
		return ""
	}
	return " (" + fault.Printable(said, 200) + ")"
}

// reasons are what nix-store prints when it ends, over its versions, most telling first.
var reasons = []struct {
	text []string
	code fault.Code
	why  func(Facts) (detail, remedy string)
}{
	{[]string{"No space left on device", "Disk quota exceeded", "database or disk is full"}, fault.DiskFull, func(f Facts) (string, string) {
		return "no space in the store at " + f.Nix.Store.Dir, "make room there, with: nix-store --gc"
	}},
	{[]string{"is not allowed to connect to the Nix daemon"}, fault.NixRefused, func(f Facts) (string, string) {
		return fmt.Sprintf("user %s is not in allowed-users of the host's nix.conf", f.User), "add it there, or go without Nix"
	}},
	{[]string{"lacks a valid signature", "lacks a signature by a trusted key"}, fault.NixRefused, func(f Facts) (string, string) {
		return "the store wants a signature even for content-addressed paths", "add the user to trusted-users of the host's nix.conf"
	}},
	{[]string{"cannot connect to socket", "cannot connect to daemon", "Connection refused"}, fault.NixDaemonDown, func(Facts) (string, string) {
		return "nix-daemon does not answer", "start it on the host: systemctl start nix-daemon.socket"
	}},
	{[]string{"Read-only file system", "Permission denied", "Operation not permitted", "is not writable"}, fault.NixRefused, func(f Facts) (string, string) {
		owner := ""
		if f.Nix.Owner != "" {
			owner = ", which belongs to " + f.Nix.Owner
		}
		return fmt.Sprintf("user %s may not write to the store at %s%s", f.User, f.Nix.Store.Dir, owner), "run nix-daemon there, or go without Nix"
	}},
	{[]string{"No such file or directory", "not found"}, fault.NixMissing, func(f Facts) (string, string) {
		return "nix-store at " + f.Nix.Dir + " does not start", "repair Nix on the host"
	}},
}

func (in *installer) nixReason(said string) *fault.Error {
	for _, r := range reasons {
		for _, text := range r.text {
			if strings.Contains(said, text) {
				detail, remedy := r.why(in.facts)
				return &fault.Error{Code: r.code, Detail: detail, Remedy: remedy}
			}
		}
	}
	return nil
}

// root makes the link that keeps the path, through nix-store, which also registers it. A name that holds something else of the
// user's is left alone and the next one used. Roots of builds that were placed long ago go: what still runs is kept
// by the collector itself.
func (in *installer) root(ctx context.Context, path string) (string, error) {
	nonce := newNonce()
	cmd, err := in.start(ctx, in.rootLine(path, nonce), nonce)
	if err != nil {
		return "", err
	}
	defer cmd.close()
	cmd.alive(cmd.verify)
	root := ""
	for {
		l, err := cmd.next()
		if err != nil {
			return "", in.nixFault(cmd, Nix, err, &nix.Session{})
		}
		key, value, _ := strings.Cut(l.rest, " ")
		switch {
		case l.word == "fact" && key == "damaged":
			return "", refuse(Nix, path, &fault.Error{Code: fault.NixRefused,
				Detail: path + " is in the store and damaged", Remedy: "repair it on the host: nix-store --verify --check-contents --repair"})
		case l.word == "fact" && key == "arch":
			return "", in.wrongArch(value)
		case l.word == "fact" && key == "gone":
			return "", errCollected
		case l.word == "fact" && key == "noexec":
			cmd.finish()
			return "", refuse(Nix, path, &fault.Error{Code: fault.NoExec, Detail: "the build does not run from the store" + inBrackets(cmd.said()), Evidence: cmd.said()})
		case l.word == "end" && root != "":
			return root, nil
		case l.word == "end":
			return "", in.nixFault(cmd, Nix, errors.New("no root could be made"), &nix.Session{})
		case l.word == "fact" && key == "root":
			root = value
		}
	}
}

func (in *installer) rootLine(path, nonce string) string {
	store := in.storeDir()
	name := in.build.System + "-" + strings.TrimPrefix(path, store+"/")[:12]
	return shLine(script(
		setNonce(nonce), say, `LC_ALL=C`, `export LC_ALL`, `umask 077`,
		`n="`+in.facts.Nix.Dir+`/nix-store"`, `P="`+path+`"`, `U=$(id -u)`,
		// use DIR: sets L to a free name in it, or to the link of ours that has the name
		`use(){ L=; mkdir -p "$1" || return 1; for x in "" -2 -3 -4 -5 -6 -7 -8 -9; do l="$1/`+name+`$x"; `+
			`if [ -L "$l" ]; then case $(readlink "$l") in "`+store+`"/*) L=$l; return 0;; esac; `+
			`elif [ -e "$l" ]; then :; else L=$l; return 0; fi; done; return 1; }`,
		own, runs, `z=`,
		`if [ -s "$P/bin/`+Program+`" ]; then runs "$P/bin/`+Program+`" || { f noexec; exit; }; elif "$n" --check-validity "$P" 2>/dev/null; then :; else f gone; exit; fi`,
		`try(){ use "$1" && "$n" --check-validity "$P" && "$n" --realise "$P" --add-root "$L" --indirect >/dev/null && [ -L "$L" ] && `+
			`{ f root "$L"; find "$1" -maxdepth 1 -type l -name "*-*-*" -mtime +90 -exec rm -f {} + 2>/dev/null; :; }; }`,
		`v=/var/tmp/kolu-$U`,
		`{ [ "$HOME" ] && try "$HOME/.local/state/kolu/roots"; } || { mkdir -p "$v" && own "$v" && try "$v/roots"; }`,
		`if [ -s "$P/bin/`+Program+`" ] && [ -x "$P/bin/`+lastName+`" ]; then :; elif "$n" --check-validity "$P" 2>/dev/null; then f damaged; fi`,
		`echo "@kolu $N end"`,
	))
}

// addFixed stages the tree on the host and lets nix-store --add-fixed take it: for servers that are wrapped or restricted.
func (in *installer) addFixed(ctx context.Context, path string) (string, error) {
	if full := in.room(in.facts.Nix.Store); full != nil {
		return "", refuse(AddFixed, in.storeDir(), full)
	}
	for _, p := range in.facts.Places {
		if p.State != PlaceOK && p.State != PlaceNoExec || in.room(p) != nil {
			continue
		}
		got, err := in.send(ctx, AddFixed, p.Dir, in.fixedScript(path))
		if err != nil {
			return "", err
		}
		if got != path {
			return "", refuse(AddFixed, in.storeDir(), &fault.Error{Code: fault.NixRefused, Detail: "the store gave the build another path: " + fault.Printable(got, 200)})
		}
		in.placed.Rung = AddFixed
		in.progress.tell(StageRoot, 0, 0)
		root, err := in.root(ctx, path)
		if errors.Is(err, errCollected) {
			return "", collected(AddFixed, path)
		}
		return root, err
	}
	return "", refuse(AddFixed, in.storeDir(), &fault.Error{Code: fault.NotWritable, Detail: "no place to unpack the build in"})
}

// fixedScript ends a send: T holds the verified tree.
func (in *installer) fixedScript(path string) string {
	name := in.build.Name()
	return script(
		`mkdir "$T/s" && mv "$T/bin" "$T/s/bin" && mv "$T/s" "$T/`+name+`" || fail write`,
		`p=$("`+in.facts.Nix.Dir+`/nix-store" --add-fixed --recursive sha256 "$T/`+name+`" </dev/null) || fail nix`,
		`rm -rf "$T"`, `f placed "$p"`,
	)
}
