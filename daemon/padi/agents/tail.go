package agents

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// TailBytes is how much of the end of a transcript is read: one entry alone may have 55 KB, and a whole first turn of Claude's 158.
const TailBytes = 256 << 10

// Tail gives the whole lines in the last TailBytes of a file, and the file's size. A line that was cut off at the start is left out, and so is one that is being
// written at the end.
func Tail(path string) (lines [][]byte, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	from := max(info.Size()-TailBytes, 0)
	body := make([]byte, info.Size()-from)
	n, err := f.ReadAt(body, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	body = body[:n]
	if from > 0 {
		_, body, _ = bytes.Cut(body, []byte("\n"))
	}
	end := bytes.LastIndexByte(body, '\n')
	if end < 0 {
		return nil, info.Size(), nil
	}
	return bytes.Split(body[:end], []byte("\n")), info.Size(), nil
}
