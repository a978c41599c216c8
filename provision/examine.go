package provision

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"kolu/internal/fault"
)

// Examination is what a host said when it was asked for everything that matters to kolu.
type Examination struct {
	Facts
	Build string // the directory of a build of this client's catalog that stands there, or ""
	Login string // the login shell by the user's record
	Clock time.Time
	Files string // how many files a process may have open, as ulimit says it

	RuntimeDir string // XDG_RUNTIME_DIR, or ""
	Logind     bool   // logind keeps the sessions of this host
	Lingers    bool   // what the user runs outlives the login
	Kills      bool   // logind ends what a session started

	Trusted, Allowed []string // users of nix.conf; nil when it does not say
	Keys             []string // the names of the keys that the store trusts
	Groups           []string // of the user
	StoreCanBeMade   bool     // there is no store yet, and the user may write where it goes

	Daemons []Daemon
	Left    []string // what is there of ours: builds, and the roots of those in the store
}

// Daemon is the home of a daemon on a host.
type Daemon struct {
	Kind      string // padi or kaval
	PID       int    // by its gate, or 0
	Live      bool   // a process has the pid
	Socket    string
	Exe       string // what the process runs, where that can be seen
	StateRoot string
	Owner     string // who keeps it running, where somebody does
}

// Examine is the line that asks for an [Examination]. It starts nothing and leaves nothing behind.
func (c *Catalog) Examine(nonce string) string {
	checkWords("padi", nonce)
	return shLine(script(setNonce(nonce), say, "m shell", c.pick(), lookFor(`f build "$1"`), probe, "m user", who, "m logind", login, "m nix.conf", nixConf,
		"m daemons", daemons, "m builds", builds, ends))
}

// who needs nothing but sh for the most of it; date and id are everywhere.
const who = `f clock "$(date +%s.%N 2>/dev/null)"; f login "$SHELL"; f groups "$(id -Gn 2>/dev/null)"; f files "$(ulimit -n 2>/dev/null)"; ` +
	`w=$(id -un 2>/dev/null); f user "$w"; f runtime "$XDG_RUNTIME_DIR"`

const login = `if [ -d /run/systemd/system ] || [ -d /run/systemd/seats ]; then f logind yes; fi; ` +
	`if [ -e "/var/lib/systemd/linger/$w" ]; then f linger yes; fi; set +f; ` +
	`for l in /etc/systemd/logind.conf /etc/systemd/logind.conf.d/*.conf; do if [ -r "$l" ]; then ` +
	`while read -r l; do case $l in KillUserProcesses=*) f kills "${l#*=}";; esac; done <"$l"; fi; done`

const nixConf = `if [ -d "$S" ]; then :; elif [ -w "${S%/*}" ]; then f store.above rw; fi; ` +
	`l=${NIX_CONF_DIR:-/etc/nix}/nix.conf; if [ -r "$l" ]; then while read -r key is value; do ` +
	`case $key in trusted-users|extra-trusted-users|allowed-users|trusted-public-keys|extra-trusted-public-keys) f "conf.${key#extra-}" "$value";; esac; done <"$l"; fi`

// eachHome begins the loop over what may be a home: $g of the kind $e, whose socket is $q.sock. It ends with "done; done; fi; done".
// KOLU_RUNTIME_DIR takes the place of all directories, as it does for the daemons.
const eachHome = `for d in "${KOLU_RUNTIME_DIR:-$XDG_RUNTIME_DIR}" "${KOLU_RUNTIME_DIR:-/run/user/$U}" "${KOLU_RUNTIME_DIR:-/tmp}" "${KOLU_RUNTIME_DIR:-/var/tmp}"; do if [ "$d" ] && [ -d "$d" ]; then ` +
	`for e in padi kaval; do q=$e; if [ $e = kaval ]; then q=pty-host; fi; for g in "$d/$e" "$d/$e"-*; do `

// alive sets $z to live or dead, and $pid, by the gate of the home $g.
const alive = `pid=0; if [ -r "$g/$e.pid" ]; then read -r pid rest <"$g/$e.pid"; fi; if [ "$pid" -gt 0 ] 2>/dev/null; then :; else pid=0; fi; ` +
	`z=dead; if [ $pid -gt 0 ] && kill -0 $pid 2>/dev/null; then z=live; fi; `

// daemons looks where daemons of this user have their homes. A home is a directory of ours with a socket.
const daemons = `n=0; set +f; ` + eachHome + `if own "$g" && [ -S "$g/$q.sock" ]; then ` + alive +
	`f daemon.$n "$e $pid $z $g/$q.sock"; if [ $z = live ]; then f daemon.$n.exe "$(readlink /proc/$pid/exe 2>/dev/null)"; fi; ` +
	`if [ -r "$g/state-root" ]; then read -r rest <"$g/state-root"; f daemon.$n.root "$rest"; fi; ` +
	`if [ -r "$g/owner" ]; then read -r rest <"$g/owner"; f daemon.$n.owner "$rest"; fi; n=$((n+1)); fi; done; done; fi; done`

// builds names what is there of ours.
const builds = `for d in ${o:+"$o"} "$h" "$r" "$v/builds" "$t/builds"; do if [ -d "$d" ]; then for g in "$d"/*; do if [ -d "$g/bin" ]; then f left "$g"; fi; done; fi; done; ` +
	`for d in "$H/.local/state/kolu/roots" "$v/roots"; do if [ -d "$d" ]; then for g in "$d"/*; do if [ -L "$g" ]; then f left "$g"; fi; done; fi; done`

// BridgeLine is the line that runs `kolu bridge` from a file on the host, which leads to a socket there. It fails for paths that no
// line can carry.
func BridgeLine(kolu, socket, nonce string) (string, error) {
	checkWords("padi", nonce)
	if cleanPath(kolu) == "" || cleanPath(socket) == "" {
		return "", fmt.Errorf("ask %q by %q: no path that a shell line can carry", socket, kolu)
	}
	return shLine(script(setNonce(nonce), say, "m bridge", `exec "`+kolu+`" bridge --nonce $N "`+socket+`"`)), nil
}

// ParseExamination reads the facts that came for [Catalog.Examine].
func ParseExamination(facts map[string]string) Examination {
	e := Examination{
		Facts: ParseFacts(facts), Build: cleanPath(firstLine(facts["build"])), Login: cleanPath(facts["login"]), Clock: clock(facts["clock"]),
		Files: word(facts["files"]), RuntimeDir: cleanPath(facts["runtime"]), Logind: facts["logind"] == "yes", Lingers: facts["linger"] == "yes",
		Groups: strings.Fields(facts["groups"]), Trusted: confWords(facts, "trusted-users"), Allowed: confWords(facts, "allowed-users"),
	}
	e.StoreCanBeMade = facts["store.above"] == "rw"
	if user := lastLine(facts["user"]); word(user) != "" { // the probe took it from the environment
		e.User = user
	}
	switch lastLine(facts["kills"]) {
	case "yes", "true", "1", "on":
		e.Kills = true
	}
	for _, key := range confWords(facts, "trusted-public-keys") {
		name, _, _ := strings.Cut(key, ":")
		e.Keys = append(e.Keys, name)
	}
	e.Left = paths(facts["left"])
	e.Daemons = parseDaemons(facts)
	return e
}

func parseDaemons(facts map[string]string) []Daemon {
	var all []Daemon
	for i := range 64 {
		key := "daemon." + strconv.Itoa(i)
		fields := strings.SplitN(facts[key], " ", 4)
		if len(fields) != 4 {
			break
		}
		pid, err := strconv.Atoi(fields[1])
		d := Daemon{Kind: word(fields[0]), PID: pid, Live: fields[2] == "live", Socket: cleanPath(fields[3]),
			Exe: cleanPath(strings.TrimSuffix(facts[key+".exe"], " (deleted)")), StateRoot: cleanPath(facts[key+".root"]), Owner: fault.Printable(facts[key+".owner"], 80)}
		if err != nil || d.Socket == "" || slices.ContainsFunc(all, func(o Daemon) bool { return o.Socket == d.Socket }) {
			continue
		}
		all = append(all, d)
	}
	return all
}

// TrustsUs says what nix.conf says of the user; known is false where it does not say.
func (e Examination) TrustsUs() (trusted, known bool) {
	if e.Nix.Dir == "" || !e.Nix.Daemon && e.Nix.Store.State != StoreWritable {
		return false, false
	}
	if e.UID == 0 || e.Nix.Store.State == StoreWritable {
		return true, true
	}
	return slices.ContainsFunc(e.Trusted, e.meansUs), e.Trusted != nil
}

// AllowedHere says whether nix.conf lets the user speak to the store's daemon at all.
func (e Examination) AllowedHere() bool {
	return e.Allowed == nil || e.UID == 0 || slices.ContainsFunc(e.Allowed, e.meansUs) || slices.ContainsFunc(e.Trusted, e.meansUs)
}

// meansUs reads a word of nix.conf: a user, @group or * for everyone.
func (e Examination) meansUs(name string) bool {
	group, isGroup := strings.CutPrefix(name, "@")
	return name == "*" || name == e.User || isGroup && slices.Contains(e.Groups, group)
}

// confWords gives nil for what nix.conf does not set.
func confWords(facts map[string]string, key string) []string {
	value, ok := facts["conf."+key]
	if !ok {
		return nil
	}
	return append([]string{}, strings.Fields(value)...)
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }

// clock reads seconds since 1970, with a fraction where date knows one.
func clock(s string) time.Time {
	whole, part, _ := strings.Cut(s, ".")
	sec, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}
	}
	nsec, err := strconv.ParseInt(part, 10, 32)
	if err != nil {
		nsec = int64(time.Second / 2)
	}
	return time.Unix(sec, nsec)
}
