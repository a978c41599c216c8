// Package record keeps who sent what to which terminal: one JSON line for each, in files that never grow past a bound. The workspace adds
// to it, faces read it through the workspace. It holds no text unless it was told to. Start at [Log].
package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

const (
	// maxText bounds what is kept of one text, in bytes.
	maxText = 4 << 10
	// maxLine bounds one line: a text of which each byte became six, and what is around it.
	maxLine = 8*maxText + 4<<10
	// maxAnswer bounds the texts of one answer, in bytes.
	maxAnswer = 2 << 20
	// older are the files that daemon.LogFile moves a full one to, newest first.
	older = 2
)

// Log is a record on disk. Its methods may be called concurrently.
type Log struct {
	path string
	mark string // exists while texts are kept
	log  *slog.Logger

	mu     sync.Mutex
	file   *daemon.LogFile
	text   bool
	torn   bool // the last line is not whole
	failed bool // the last one could not be written
}

// Open opens the record of a state root. The caller closes it.
func Open(root string, log *slog.Logger) (*Log, error) {
	l := &Log{path: filepath.Join(root, "record.log"), mark: filepath.Join(root, "record-text"), log: log}
	l.torn = isTorn(l.path)
	file, err := daemon.OpenLogFile(l.path)
	if err != nil {
		return nil, fmt.Errorf("open record: %w", err)
	}
	l.file = file
	_, err = os.Stat(l.mark)
	l.text = err == nil
	return l, nil
}

// Close closes the file; what is added later is lost.
func (l *Log) Close() error { return l.file.Close() }

// isTorn reports whether a file ends within a line, as after a crash.
func isTorn(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	last := make([]byte, 1)
	if _, err := f.Seek(-1, io.SeekEnd); err != nil {
		return false
	}
	_, err = f.Read(last)
	return err == nil && last[0] != '\n'
}

// Add keeps a sending. data is what was sent, of which only the length is kept unless texts are. A disk that is full costs the entry
// and nothing else.
func (l *Log) Add(s padi.Sending, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Bytes = len(data)
	if l.text {
		s.Text, s.TextCut = text(data)
	}
	line, err := json.Marshal(s)
	if err == nil {
		err = l.write(append(line, '\n'))
	}
	if err != nil && !l.failed {
		l.log.Warn("sending not recorded", "err", err)
	}
	l.failed = err != nil
}

func (l *Log) write(line []byte) error {
	if l.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := l.file.Write(line)
	if n > 0 {
		l.torn = n < len(line)
	}
	return err
}

func text(data []byte) (kept string, cut bool) {
	if cut = len(data) > maxText; cut {
		end := maxText
		for end > maxText-utf8.UTFMax && !utf8.RuneStart(data[end]) { // not half a character at the end
			end--
		}
		data = data[:end]
	}
	return strings.ToValidUTF8(string(data), "\ufffd"), cut
}

// KeepText says whether texts are kept from now on, also after a restart. What is kept already stays.
func (l *Log) KeepText(keep bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if keep {
		err = os.WriteFile(l.mark, nil, 0o600)
	} else if err = os.Remove(l.mark); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("keep texts: %w", err)
	}
	l.text = keep
	return nil
}

// Read gives the newest sendings that a request asks for, the oldest of them first. A line that is not whole is left out.
func (l *Log) Read(req padi.RecordedRequest) (padi.Recorded, error) {
	if req.Limit < 0 || req.Limit > padi.MaxRecorded {
		return padi.Recorded{}, kaval.Invalidf("a limit of %d is not between 1 and %d", req.Limit, padi.MaxRecorded)
	}
	if req.Limit == 0 {
		req.Limit = padi.DefaultRecorded
	}
	files, keeps, err := l.open()
	if err != nil {
		return padi.Recorded{}, err
	}
	last := newest{limit: req.Limit}
	for _, f := range files {
		scan(f, func(s padi.Sending) {
			if asked(s, req) {
				last.add(s)
			}
		})
		f.Close()
	}
	list := last.list()
	return padi.Recorded{Sendings: list, More: last.more, Text: keeps}, nil
}

// open gives the files, the oldest first, as they are between two entries.
func (l *Log) open() (files []*os.File, keeps bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := older; i >= 0; i-- {
		path := l.path
		if i > 0 {
			path = fmt.Sprintf("%s.%d", l.path, i)
		}
		f, err := os.Open(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			for _, f := range files {
				f.Close()
			}
			return nil, false, fmt.Errorf("read record: %w", err)
		default:
			files = append(files, f)
		}
	}
	return files, l.text, nil
}

func scan(r io.Reader, each func(padi.Sending)) {
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		var s padi.Sending
		if err == nil && json.Unmarshal(line, &s) == nil && s.To != "" {
			each(s)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return // the rest is half a line, or cannot be read
		}
	}
}

func asked(s padi.Sending, req padi.RecordedRequest) bool {
	if s.At < req.Since {
		return false
	}
	prefix := strings.ToLower(req.Terminal)
	return strings.HasPrefix(strings.ToLower(string(s.To)), prefix) ||
		strings.HasPrefix(strings.ToLower(string(s.From.Terminal)), prefix)
}

// newest keeps the last ones of many.
type newest struct {
	limit int
	ring  []padi.Sending
	at    int // of the oldest, when the ring is full
	more  bool
}

func (n *newest) add(s padi.Sending) {
	if len(n.ring) < n.limit {
		n.ring = append(n.ring, s)
		return
	}
	n.ring[n.at], n.more = s, true
	n.at = (n.at + 1) % n.limit
}

// list is them in order, as many of the last as an answer has room for.
func (n *newest) list() []padi.Sending {
	all := append(append([]padi.Sending{}, n.ring[n.at:]...), n.ring[:n.at]...)
	size := 0
	for i := len(all) - 1; i >= 0; i-- {
		if size += len(all[i].Text); size > maxAnswer {
			n.more = true
			return all[i+1:]
		}
	}
	return all
}
