// Package sqlite reads a SQLite database that another program has open and writes to: rows by their table, newest first, or by an
// indexed column. For the agents that keep their sessions in one. It takes no lock, opens no shared memory and writes nothing, so that it can
// neither hold up nor break the program that owns the database; it knows no SQL. A full engine in Go would add a third to our binary.
//
// A look is a consistent one: what was committed to the write-ahead log is followed frame by frame, with its checksums, and a look during
// which the database moved is done again.
package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// The errors of a database that is there. ErrFormat says that this package cannot read it, ErrBusy that it moved at each look.
var (
	ErrFormat  = errors.New("not a database that can be read here")
	ErrBusy    = errors.New("the database kept changing")
	ErrNoTable = errors.New("no such table")
)

// Reader looks at one database again and again. It is for one caller at a time, and holds no file open between looks.
type Reader struct {
	path string
	wal  walIndex
}

// NewReader reads the database at path, which need not be there yet.
func NewReader(path string) *Reader { return &Reader{path: path} }

// Path is where the database is.
func (r *Reader) Path() string { return r.path }

// looks is how often a look is tried while the database moves.
const looks = 5

// View calls look with the database as it is at one moment. look may be called again, when the database moved under it; what it gathered
// before is then worthless. A database that is not there gives an error that wraps fs.ErrNotExist.
func (r *Reader) View(look func(*DB) error) error {
	for range looks {
		moved, err := r.viewOnce(look)
		if !moved {
			return err
		}
	}
	return fmt.Errorf("%s: %w", r.path, ErrBusy)
}

func (r *Reader) viewOnce(look func(*DB) error) (moved bool, err error) {
	file, err := os.Open(r.path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	wal, err := os.Open(r.path + "-wal")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if wal != nil {
		defer wal.Close()
	}
	before, err := r.follow(file, wal)
	if err != nil {
		return false, err
	}
	db := &DB{file: file, walFile: wal, frames: r.wal.frames, size: int(before.pageSize), usable: int(before.pageSize) - int(before.reserved)}
	lookErr := look(db)
	after, err := r.follow(file, wal)
	if err != nil {
		return false, err
	}
	if after != before {
		return true, nil
	}
	if lookErr != nil {
		return false, fmt.Errorf("%s: %w", r.path, lookErr)
	}
	return false, nil
}

// mark is what changes with each commit.
type mark struct {
	pageSize uint32
	reserved byte
	counter  uint32 // of a database without a log
	salt     [8]byte
	frames   int
}

const headerSize = 100

func (r *Reader) follow(file, wal *os.File) (mark, error) {
	var head [headerSize]byte
	if _, err := file.ReadAt(head[:], 0); err != nil {
		if errors.Is(err, io.EOF) { // just made: everything is in the log, or nothing is anywhere
			return r.followNew(wal)
		}
		return mark{}, fmt.Errorf("read %s: %w", r.path, err)
	}
	m, err := readHeader(head[:])
	if err != nil {
		return mark{}, fmt.Errorf("%s: %w", r.path, err)
	}
	return r.followLog(wal, m)
}

func readHeader(head []byte) (mark, error) {
	if !bytes.Equal(head[:16], []byte("SQLite format 3\x00")) {
		return mark{}, fmt.Errorf("%w: no header", ErrFormat)
	}
	if enc := binary.BigEndian.Uint32(head[56:]); enc > 1 {
		return mark{}, fmt.Errorf("%w: text encoding %d", ErrFormat, enc)
	}
	size := uint32(binary.BigEndian.Uint16(head[16:]))
	if size == 1 {
		size = 65536
	}
	if size < 512 || size&(size-1) != 0 {
		return mark{}, fmt.Errorf("%w: pages of %d bytes", ErrFormat, size)
	}
	return mark{pageSize: size, reserved: head[20], counter: binary.BigEndian.Uint32(head[24:])}, nil
}

func (r *Reader) followNew(wal *os.File) (mark, error) {
	if wal == nil {
		return mark{}, fmt.Errorf("%s is empty: %w", r.path, fs.ErrNotExist)
	}
	size, err := walPageSize(wal)
	if err != nil {
		return mark{}, fmt.Errorf("%s is empty: %w", r.path, fs.ErrNotExist)
	}
	return r.followLog(wal, mark{pageSize: size})
}

func (r *Reader) followLog(wal *os.File, m mark) (mark, error) {
	if wal == nil {
		r.wal = walIndex{}
		return m, nil
	}
	if err := r.wal.follow(wal, m.pageSize); err != nil {
		return mark{}, fmt.Errorf("read %s-wal: %w", r.path, err)
	}
	m.salt, m.frames = r.wal.salt, r.wal.committed
	return m, nil
}

// DB is a database at one moment, for the time of one look.
type DB struct {
	file, walFile *os.File
	frames        map[uint32]int64
	size, usable  int
	schema        map[string]*Table
}

// page reads page n, from 1 on, where it was last committed to.
func (db *DB) page(n uint32) ([]byte, error) {
	if n == 0 {
		return nil, fmt.Errorf("%w: page 0", ErrFormat)
	}
	buf := make([]byte, db.size)
	if at, ok := db.frames[n]; ok {
		_, err := db.walFile.ReadAt(buf, at)
		return buf, err
	}
	_, err := db.file.ReadAt(buf, int64(n-1)*int64(db.size))
	return buf, err
}
