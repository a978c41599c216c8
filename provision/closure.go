package provision

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"kolu/internal/fault"
	"kolu/provision/nix"
)

// ClosureVar names a store path of this machine, such as the output of a flake, that goes to hosts of its system with everything it
// refers to, in place of the one static file.
const ClosureVar = "KOLU_CLOSURE"

// goodStorePath is what a shell line can carry without quotes.
var goodStorePath = pattern(`^(/[0-9A-Za-z._-]+)+/[0-9a-z]{32}-[0-9A-Za-z+._=-]{1,180}$`)

// readClosure takes the closure that the environment names, for the system that its kolu is for.
func (c *Catalog) readClosure(getenv func(string) string, own string) error {
	path := getenv(ClosureVar)
	if path == "" {
		return nil
	}
	bad := func(err error) error {
		return &fault.Error{Code: fault.BadBuild, Stage: stage, Who: fault.Local, Err: err,
			Detail: fmt.Sprintf("%s=%s: %v", ClosureVar, fault.Printable(path, 200), err), Remedy: "give it a store path with kolu and its other names in bin, or unset it"}
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a result link
	}
	if !goodStorePath().MatchString(path) {
		return bad(errors.New("it is no store path"))
	}
	for _, name := range Names {
		if _, err := os.Stat(filepath.Join(path, "bin", name)); err != nil {
			return bad(err)
		}
	}
	c.closure, c.closureSystem = path, cmp.Or(systemOfFile(filepath.Join(path, "bin", Program)), own)
	return nil
}

// systemOfFile gives the system that an ELF executable is for, or "".
func systemOfFile(file string) string {
	f, err := elf.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	return map[elf.Machine]string{elf.EM_X86_64: "x86_64-linux", elf.EM_AARCH64: "aarch64-linux"}[f.Machine]
}

// withClosure adds the closure that is meant for the system of a build.
func (c *Catalog) withClosure(b Build) Build {
	if c.closure != "" && c.closureSystem == b.System {
		b.Closure = c.closure
	}
	return b
}

// closureRung brings a path with everything that it refers to from this machine's store to the host's. What the host would refuse after
// the last byte is refused before the first.
func (in *installer) closureRung(ctx context.Context) error {
	top := in.build.Closure
	if in.facts.Nix.Dir == "" {
		return refuse(Closure, "", &fault.Error{Code: fault.NixMissing, Detail: "a closure needs Nix on the host, and it is not there"})
	}
	if dir := filepath.Dir(top); dir != in.storeDir() {
		return refuse(Closure, in.storeDir(), &fault.Error{Code: fault.NixRefused, Detail: "the host keeps its store there, and the closure is made for " + dir})
	}
	local, err := openLocalStore(ctx)
	if err != nil {
		return badClosure(top, err)
	}
	defer local.close()
	infos, err := local.session.Closure(top)
	if err != nil {
		return badClosure(top, local.why(err))
	}
	err = in.copyClosure(ctx, top, infos, local)
	if errors.Is(err, errCollected) { // between two sessions of a host that allows one at a time
		err = in.copyClosure(ctx, top, infos, local)
	}
	if errors.Is(err, errCollected) {
		return collected(Closure, top)
	}
	return err
}

func badClosure(top string, err error) error {
	return &fault.Error{Code: fault.BadBuild, Stage: stage, Who: fault.Local, Err: err,
		Detail: fmt.Sprintf("the closure of %s cannot be read here: %v", top, err), Remedy: "build it anew, or unset " + ClosureVar}
}

// copyClosure asks in one go what is missing and locks all of it until the root stands.
func (in *installer) copyClosure(ctx context.Context, top string, infos []nix.PathInfo, local *localStore) error {
	nonce := newNonce()
	cmd, err := in.start(ctx, in.serveLine(), nonce)
	if err != nil {
		return err
	}
	defer cmd.close()
	var paths []string
	for _, info := range infos {
		paths = append(paths, info.Path)
	}
	stdin := &moving{w: cmd.proc.Stdin(), cmd: cmd, may: cmd.quick}
	session, valid, err := nix.OpenAll(stdin, cmd.out, paths)
	if err != nil {
		return in.closureFault(cmd, err, session, nil)
	}
	defer func() { in.sent.Add(session.Sent()) }()
	missing := slices.DeleteFunc(slices.Clone(infos), func(i nix.PathInfo) bool { return slices.Contains(valid, i.Path) })
	in.placed.Rung = Valid
	if len(missing) > 0 {
		in.placed.Rung = Closure
		cmd.alive(cmd.verify)
		if refused := in.wouldRefuse(ctx, missing); refused != nil {
			return refuse(Closure, in.storeDir(), refused)
		}
		if err := in.addClosure(cmd, session, missing, local); err != nil {
			return in.closureFault(cmd, err, session, missing)
		}
	}
	root, err := in.keep(ctx, cmd, session, top)
	if err != nil {
		return err
	}
	in.placed.Bin, in.placed.Root = top+"/bin", root
	return nil
}

func (in *installer) addClosure(cmd *command, s *nix.Session, missing []nix.PathInfo, local *localStore) error {
	var total int64
	for _, info := range missing {
		total += info.NarSize
	}
	cmd.alive(cmd.send)
	return s.AddAll(missing, func(info nix.PathInfo, w io.Writer) error {
		return local.session.Dump(info.Path, info.NarSize, w)
	}, func(sent int64) {
		in.progress.tell(StageSend, sent, total)
		cmd.alive(cmd.send)
		if sent == total {
			in.progress.tell(StageVerify, 0, 0)
			cmd.alive(cmd.verify)
		}
	})
}

// wouldRefuse says why the store would not take what is missing, as far as that can be known before a byte of it is sent: room, and for
// paths that nothing proves (neither their content nor a signature that the host trusts) whether it trusts the user.
func (in *installer) wouldRefuse(ctx context.Context, missing []nix.PathInfo) *fault.Error {
	var total int64
	for _, info := range missing {
		total += info.NarSize
	}
	if p := in.facts.Nix.Store; p.Free >= 0 && p.Free < total+slack {
		return diskFull(p.Dir, fmt.Sprintf("%s free, %s needed", mib(p.Free), mib(total+slack)))
	}
	unproven := slices.DeleteFunc(slices.Clone(missing), func(i nix.PathInfo) bool { return i.CA != "" })
	if len(unproven) == 0 || in.facts.Nix.Store.State == StoreWritable || in.facts.UID == 0 {
		return nil
	}
	trusted, known, err := AskTrust(ctx, in.run, in.facts)
	if err == nil && known && trusted {
		return nil
	}
	conf, err := in.conf(ctx)
	if err != nil { // it cannot be known: the host will say
		return nil
	}
	if !known {
		if trusted, known = conf.TrustsUs(); trusted || !known && conf.Trusted == nil && conf.Keys == nil {
			return nil
		}
	}
	keys := conf.Keys
	if keys == nil {
		keys = []string{"cache.nixos.org-1"} // what Nix trusts when nothing is said
	}
	unproven = slices.DeleteFunc(unproven, func(i nix.PathInfo) bool { return slices.ContainsFunc(i.Sigs, signedBy(keys)) })
	if len(unproven) == 0 {
		return nil
	}
	return in.untrusted(unproven)
}

func signedBy(keys []string) func(sig string) bool {
	return func(sig string) bool {
		name, _, _ := strings.Cut(sig, ":")
		return slices.Contains(keys, name)
	}
}

func (in *installer) untrusted(paths []nix.PathInfo) *fault.Error {
	return &fault.Error{Code: fault.NixRefused,
		Detail: fmt.Sprintf("user %s is not in trusted-users of the host, and %d paths of the closure are neither addressed by their content nor signed by a key that it trusts, such as %s",
			in.facts.User, len(paths), paths[0].Path),
		Remedy: "add the user to trusted-users of the host's nix.conf, sign the closure (nix store sign -r -k KEY), or unset " + ClosureVar}
}

// conf asks for what nix.conf and the user's groups say.
func (in *installer) conf(ctx context.Context) (Examination, error) {
	nonce := newNonce()
	cmd, err := in.start(ctx, shLine(script(setNonce(nonce), say, `S=`, `U=$(id -u)`, `H=`, who, nixConf, ends)), nonce)
	if err != nil {
		return Examination{}, err
	}
	defer cmd.close()
	facts := map[string]string{}
	for {
		l, err := cmd.next()
		if err != nil {
			return Examination{}, err
		}
		if l.word == "end" {
			break
		}
		if key, value, _ := strings.Cut(l.rest, " "); l.word == "fact" {
			facts[key] = strings.TrimPrefix(facts[key]+"\n"+value, "\n")
		}
	}
	e := ParseExamination(facts)
	user := e.User
	e.Facts = in.facts
	e.User = cmp.Or(user, e.User)
	return e, nil
}

// closureFault is nixFault, with what a missing signature means for a closure.
func (in *installer) closureFault(cmd *command, err error, s *nix.Session, missing []nix.PathInfo) error {
	err = in.nixFault(cmd, Closure, err, s)
	r, ok := errors.AsType[*refused](err)
	if !ok || len(missing) == 0 || !containsAny(r.Err.Evidence, "lacks a valid signature", "lacks a signature by a trusted key") {
		return err
	}
	f := in.untrusted(missing)
	f.Err, f.Evidence = r.Err.Err, r.Err.Evidence
	return refuse(Closure, in.storeDir(), f)
}

// localStore is this machine's store, read through its own nix-store --serve.
type localStore struct {
	cmd     *exec.Cmd
	session *nix.Session
	in      io.Closer
	stderr  bytes.Buffer
}

func openLocalStore(ctx context.Context) (*localStore, error) {
	program, err := localNix()
	if err != nil {
		return nil, err
	}
	s := &localStore{cmd: exec.CommandContext(ctx, program, "--serve")}
	s.cmd.Env = append(os.Environ(), "LC_ALL=C")
	s.cmd.Stderr = &s.stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.in = in
	if s.session, err = nix.Read(in, out); err != nil {
		return nil, s.why(err)
	}
	return s, nil
}

// localNix finds nix-store where Nix puts itself.
func localNix() (string, error) {
	program, err := exec.LookPath("nix-store")
	if err == nil {
		return program, nil
	}
	home, _ := os.UserHomeDir()
	for _, dir := range []string{"/nix/var/nix/profiles/default/bin", "/run/current-system/sw/bin", home + "/.nix-profile/bin", home + "/.local/state/nix/profile/bin"} {
		if p, err := exec.LookPath(dir + "/nix-store"); err == nil {
			return p, nil
		}
	}
	return "", err
}

// why ends the server and adds what it printed.
func (s *localStore) why(err error) error {
	s.close()
	if said := fault.Printable(s.stderr.String(), 300); said != "" {
		return fmt.Errorf("%w (%s)", err, said)
	}
	return err
}

func (s *localStore) close() {
	s.in.Close()
	s.cmd.Process.Kill() // it only reads
	s.cmd.Wait()
}
