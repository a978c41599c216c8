package drive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"kolu/daemon/kaval"
	"kolu/internal/keys"
)

const (
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// SendSpec is what a user asked to send, before anything was read.
type SendSpec struct {
	Words   []string // text on the command line, one source together
	File    *string  // --file, when it was given
	Stdin   io.Reader
	Keys    []string
	Paste   bool
	NoPaste bool
	// Self is the command to name in advice, like "kaval-tui", and ID what the user called the terminal.
	Self string
	ID   string
	// Dir is where a relative File is looked for.
	Dir string
}

// Payload is the one write of a send.
type Payload struct {
	Data  []byte
	Paste bool
	Keys  []string
}

// Piped reports whether r is a payload by itself: a pipe or a regular file. A terminal, a socket (agents give their
// children one) and /dev/null are not.
func Piped(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	return info.Mode()&fs.ModeNamedPipe != 0 || info.Mode().IsRegular()
}

// Payload decides between text and keys, refuses what is neither or both, and gives the bytes. Everything that can be wrong
// with a send is found here, before anything is dialled.
func (s SendSpec) Payload() (Payload, error) {
	sources := s.sources()
	switch {
	case len(sources) > 0 && len(s.Keys) > 0:
		return Payload{}, s.bothError(sources[0])
	case len(sources) > 1:
		return Payload{}, fmt.Errorf("%s each provide the send text — pass exactly one source, not several",
			strings.Join(sources, " and "))
	case s.Paste && s.NoPaste:
		return Payload{}, errors.New("--paste and --no-paste exclude each other")
	case len(sources) == 0 && len(s.Keys) == 0:
		return Payload{}, errors.New("nothing to send — pass text, --file PATH, piped stdin, or --key NAME")
	case len(s.Keys) > 0:
		return keyPayload(s.Keys)
	}
	return s.textPayload(sources[0])
}

func (s SendSpec) sources() []string {
	var names []string
	if len(s.Words) > 0 {
		names = append(names, "the text argument")
	}
	if s.File != nil {
		names = append(names, fmt.Sprintf("--file %q", *s.File))
	}
	if Piped(s.Stdin) {
		names = append(names, "piped stdin")
	}
	return names
}

func (s SendSpec) bothError(source string) error {
	why := ""
	if source == "piped stdin" {
		why = " (stdin is a pipe or a file here; add </dev/null if it is not meant)"
	}
	return fmt.Errorf("%s and --key cannot go in one send%s: a key in the same breath as text is lost in the program's paste "+
		"handling — type, settle, submit: `%[3]s send %[4]s --file prompt.txt`, `%[3]s wait %[4]s --until idle:300 --timeout 15000`, "+
		"`%[3]s send %[4]s --key Enter`", source, why, s.Self, s.ID)
}

func keyPayload(names []string) (Payload, error) {
	seq, err := keys.EncodeAll(names)
	if e, ok := errors.AsType[*keys.UnknownError](err); ok {
		return Payload{}, fmt.Errorf("unknown --key %q — use a name (%s) or a chord (C-c, M-b)", e.Name, strings.Join(keys.Names(), ", "))
	}
	return Payload{Data: []byte(seq), Keys: names}, err
}

func (s SendSpec) textPayload(source string) (Payload, error) {
	text, streamed, err := s.text()
	if err != nil {
		return Payload{}, err
	}
	if len(text) == 0 {
		return Payload{}, fmt.Errorf("nothing to send — %s is empty", source)
	}
	paste := (streamed || strings.Contains(string(text), "\n") || s.Paste) && !s.NoPaste
	if paste {
		text = Paste(text)
	}
	if len(text) > kaval.MaxInput {
		return Payload{}, fmt.Errorf("%s is larger than the %d MiB that one send may carry", source, kaval.MaxInput>>20)
	}
	return Payload{Data: text, Paste: paste}, nil
}

// text reads the one source; streamed says that it is a file or stdin.
func (s SendSpec) text() (text []byte, streamed bool, err error) {
	switch {
	case len(s.Words) > 0:
		return []byte(strings.Join(s.Words, " ")), false, nil
	case s.File != nil:
		text, err = readFile(s.Dir, *s.File)
		return text, true, err
	}
	text, err = io.ReadAll(io.LimitReader(s.Stdin, kaval.MaxInput+1))
	if err != nil {
		return nil, true, fmt.Errorf("read stdin: %w", err)
	}
	return text, true, nil
}

func readFile(dir, path string) ([]byte, error) {
	full := path
	if !filepath.IsAbs(path) {
		full = filepath.Join(dir, path)
	}
	text, err := os.ReadFile(full)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--file %q: no such file", path)
	}
	if err != nil {
		return nil, fmt.Errorf("--file %q: %w", path, err)
	}
	return text, nil
}

// Paste marks text as one paste, so that a program takes it as a block instead of line by line.
func Paste(text []byte) []byte {
	return []byte(pasteStart + string(text) + pasteEnd)
}
