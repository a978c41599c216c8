// Package stdio carries many connections over the stdin and stdout of one process, usually across ssh. Package fleet holds
// the near end, `padi --stdio` and `kaval --stdio` the far one; what the connections carry is none of its business.
//
// # The wire
//
// The far side first prints lines for people and programs alike, because login shells print too:
//
//	@kolu NONCE WORD REST
//
// NONCE is the caller's, so nothing that a shell prints can be taken for a line of ours. WORD is "mark" (how far a script
// got), "fact" (KEY VALUE), "end" (of the facts, no more follows) or "banner" (a JSON object; the next byte is yamux).
// Everything else is noise: skipped, bounded, kept for the error message.
//
// After the banner both ends speak yamux, the near end as its client. The first stream is the ping: each byte sent on it
// comes back. Every other stream is one connection. The far end begins each with one byte, 0 when the connection stands, or
// 1 and a sentence (2 bytes of length, big-endian, then the text) when the dial failed; then only the connection's bytes
// follow. Start reading at [ReadPreamble], [Client] and [Serve].
package stdio

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// BannerVersion is the version of the banner that this package writes.
const BannerVersion = 1

// The verdicts of a banner.
const (
	Ready   = "ready"
	Refused = "refused"
)

// Banner is what a front says of itself and of the daemon it leads to.
type Banner struct {
	V       int    `json:"v"`
	Verdict string `json:"verdict"`
	// Code and Detail say why, with Refused; Code is a fault code.
	Code      string   `json:"code,omitempty"`
	Detail    string   `json:"detail,omitempty"`
	Contract  string   `json:"contract,omitempty"`
	Build     string   `json:"build,omitempty"`
	Commit    string   `json:"commit,omitempty"`
	PID       int      `json:"pid,omitempty"`       // of the daemon
	StartedAt int64    `json:"startedAt,omitempty"` // milliseconds since 1970 by the host's clock
	Socket    string   `json:"socket,omitempty"`
	Bin       string   `json:"bin,omitempty"` // the directory of the build that the daemon runs from
	HostID    string   `json:"hostId,omitempty"`
	BootID    string   `json:"bootId,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
}

// WriteBanner prints the banner line. The next byte on w belongs to [Serve]. A zero V becomes BannerVersion.
func WriteBanner(w io.Writer, nonce string, b Banner) error {
	if b.V == 0 {
		b.V = BannerVersion
	}
	text, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("encode banner: %w", err)
	}
	if len(text) > maxBanner {
		return fmt.Errorf("encode banner: %d bytes, more than %d", len(text), maxBanner)
	}
	return writeLine(w, nonce, "banner", string(text))
}

// WriteMark prints how far the front got, which also tells the near end that it is alive.
func WriteMark(w io.Writer, nonce, text string) error {
	return writeLine(w, nonce, "mark", text)
}

func writeLine(w io.Writer, nonce, word, rest string) error {
	if err := checkNonce(nonce); err != nil {
		return err
	}
	rest = strings.NewReplacer("\n", " ", "\r", " ").Replace(rest)
	if _, err := io.WriteString(w, prefix+nonce+" "+word+" "+rest+"\n"); err != nil {
		return fmt.Errorf("write %s line: %w", word, err)
	}
	return nil
}

func checkNonce(nonce string) error {
	if nonce == "" || len(nonce) > 64 || strings.ContainsFunc(nonce, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}) {
		return fmt.Errorf("nonce %q: want 1 to 64 letters and digits", nonce)
	}
	return nil
}
