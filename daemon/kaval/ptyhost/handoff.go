package ptyhost

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/kaval/pty"
	"kolu/daemon/kaval/vt"
)

// # Handing over
//
// Another build can take the place of this one in the same process: Freeze brings the host to rest, Save writes all of it, and the other
// build reads that with ReadState and goes on with Resume. At rest every call that changes something has either happened or not
// begun, every byte that was read is on the screen, and the rest waits in the terminals. Nobody who only looks notices anything
// until Leave; a Thaw undoes even that.

const (
	// stateFormat is the version of what Save writes. Another one is not read.
	stateFormat = 1
	// freezeLimit is how long calls under way may take to end; a kill is the longest.
	freezeLimit = kaval.KillDeadline + 4*time.Second
	// leaveLimit is how long attachments may take to notice that they have ended.
	leaveLimit = 500 * time.Millisecond
	// maxBlock bounds one part of a saved state.
	maxBlock = 1 << 30
)

// Frozen is a host at rest. Thaw ends it.
type Frozen struct{ h *Host }

// Freeze brings the host to rest. While one is at rest, or when a call does not end in time, it gives ErrRefused and the host
// goes on as it was.
func (h *Host) Freeze(ctx context.Context) (*Frozen, error) {
	if !h.frozen.TryLock() {
		return nil, fmt.Errorf("%w: another upgrade is under way", kaval.ErrRefused)
	}
	ctx, cancel := context.WithTimeout(ctx, freezeLimit)
	defer cancel()
	f := &Frozen{h}
	if err := h.rest(ctx); err != nil {
		f.Thaw()
		return nil, fmt.Errorf("%w: something has been under way for %v: %w", kaval.ErrRefused, freezeLimit, err)
	}
	return f, nil
}

func (h *Host) rest(ctx context.Context) error {
	if err := h.ops.close(ctx); err != nil {
		return fmt.Errorf("a call: %w", err)
	}
	if err := h.reaps.close(ctx); err != nil {
		return fmt.Errorf("the end of a terminal: %w", err)
	}
	for _, t := range h.terminals() {
		t.hold(true)
		if err := t.io.close(ctx); err != nil {
			return fmt.Errorf("input or output of terminal %s: %w", t.id.Short(), err)
		}
	}
	return nil
}

func (h *Host) terminals() []*terminal {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*terminal(nil), h.order...)
}

// hold cuts writes short, or lets them take their time again.
func (t *terminal) hold(on bool) {
	t.deadline.Lock()
	defer t.deadline.Unlock()
	t.held = on
	if on {
		_ = t.proc.Master.SetWriteDeadline(time.Unix(1, 0))
	}
}

// Thaw lets the host go on as if nothing had been.
func (f *Frozen) Thaw() {
	h := f.h
	h.mu.Lock()
	select {
	case <-h.moving:
		h.moving = make(chan struct{})
	default:
	}
	h.mu.Unlock()
	for _, t := range h.terminals() {
		t.hold(false)
		t.io.open()
		t.takeBack()
	}
	for _, g := range []*gate{&h.attached, &h.writes, &h.reaps, &h.ops} {
		g.open()
	}
	h.frozen.Unlock()
}

// takeBack writes what was to be written by a build that did not take over.
func (t *terminal) takeBack() {
	t.mu.Lock()
	data := t.carry
	t.carry = nil
	t.mu.Unlock()
	if len(data) > 0 {
		t.host.readers.Go(func() { t.writeLate(data) })
	}
}

func (t *terminal) writeLate(data []byte) {
	if err := t.write(context.Background(), data, kaval.WriteDeadline); err != nil {
		t.host.log.Warn("input from before an upgrade", "terminal", t.id, "err", err)
	}
}

// movingNow is closed when this build hands over.
func (h *Host) movingNow() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.moving
}

// Files are the near sides of the terminals, which must stay open for the build that takes over.
func (f *Frozen) Files() []syscall.Conn {
	var files []syscall.Conn
	for _, t := range f.h.terminals() {
		files = append(files, t.proc.Master)
	}
	return files
}

// Leave ends every wait with Closed and every attachment and watch with ErrMoving, and takes the input that is on its way. It gives
// that input as what Resume calls late; from then on nothing is taken any more.
func (f *Frozen) Leave(ctx context.Context) (map[kaval.TerminalID][]byte, error) {
	h := f.h
	h.mu.Lock()
	close(h.moving)
	h.mu.Unlock()
	leaving, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	_ = h.attached.close(leaving) // who does not notice is cut off
	ctx, stop := context.WithTimeout(ctx, freezeLimit)
	defer stop()
	if err := h.writes.close(ctx); err != nil {
		return nil, fmt.Errorf("%w: input is still on its way: %w", kaval.ErrRefused, err)
	}
	late := map[kaval.TerminalID][]byte{}
	for _, t := range h.terminals() {
		t.mu.Lock()
		data := t.carry
		t.mu.Unlock()
		if data = append(data[:len(data):len(data)], t.replies.waiting()...); len(data) > 0 {
			late[t.id] = data
		}
	}
	return late, nil
}

// waiting gives the answers that nobody has begun to write.
func (q *replyQueue) waiting() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pending
}

// savedHost begins a saved state; as many terminals follow, each as a savedTerminal, its recent output and its screen.
type savedHost struct {
	Format    int         `json:"format"`
	Tombs     []savedTomb `json:"tombs,omitempty"`
	Terminals int         `json:"terminals"`
}

type savedTomb struct {
	ID     kaval.TerminalID `json:"id"`
	Code   int              `json:"code"`
	Offset int64            `json:"offset"`
}

type savedTerminal struct {
	FD         int            `json:"fd"`
	Record     kaval.Terminal `json:"record"`
	InitDir    string         `json:"initDir,omitempty"`
	Told       bool           `json:"told,omitempty"`
	Speaker    int            `json:"speaker,omitempty"`
	LastOutput int64          `json:"lastOutput"`
	MutedUntil int64          `json:"mutedUntil,omitempty"`
	Quiet      int64          `json:"quiet"` // Unix milliseconds
	End        int64          `json:"end"`   // offset after the recent output
	Seq        uint64         `json:"seq,omitempty"`
	Dropped    uint64         `json:"dropped,omitempty"`
	Marks      []savedMark    `json:"marks,omitempty"`
}

type savedMark struct {
	Seq    uint64     `json:"seq"`
	Offset int64      `json:"offset"`
	Was    kaval.Size `json:"was"`
	Size   kaval.Size `json:"size"`
}

// Save writes the state of the host.
func (f *Frozen) Save(w io.Writer) error {
	terminals := f.h.terminals()
	head := savedHost{Format: stateFormat, Terminals: len(terminals)}
	f.h.mu.Lock()
	for _, id := range f.h.tombs.order {
		tomb := f.h.tombs.byID[id]
		head.Tombs = append(head.Tombs, savedTomb{tomb.id, tomb.code, tomb.offset})
	}
	f.h.mu.Unlock()
	out := bufio.NewWriterSize(w, 256<<10)
	if err := writeJSON(out, head); err != nil {
		return err
	}
	for _, t := range terminals {
		if err := t.save(out); err != nil {
			return fmt.Errorf("save terminal %s: %w", t.id.Short(), err)
		}
	}
	return out.Flush()
}

func (t *terminal) save(w io.Writer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := savedTerminal{
		LastOutput: t.lastOutput.Load(), MutedUntil: t.mutedUntil.Load(), Quiet: t.quiet.UnixMilli(),
		End: t.out.end, Seq: t.seq, Dropped: t.dropped,
	}
	raw, err := t.proc.Master.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { s.FD = int(fd) })
	}
	if err != nil {
		return err
	}
	if t.files != nil {
		s.InitDir = t.files.dir
	}
	for _, m := range t.marks {
		s.Marks = append(s.Marks, savedMark{m.seq, m.offset, m.was, m.size})
	}
	t.host.mu.Lock()
	s.Record, s.Told, s.Speaker = t.rec, t.tap.told, t.tap.speaker
	t.host.mu.Unlock()
	if err := writeJSON(w, s); err != nil {
		return err
	}
	if err := writeBlock(w, t.out.read(t.out.start(), t.out.held)); err != nil {
		return err
	}
	return writeBlock(w, t.screen.Save())
}

func writeJSON(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeBlock(w, data)
}

func writeBlock(w io.Writer, data []byte) error {
	if _, err := w.Write(binary.AppendUvarint(nil, uint64(len(data)))); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// State is a saved state that was read back.
type State struct {
	tombs     []savedTomb
	terminals []readTerminal
}

type readTerminal struct {
	savedTerminal
	out    []byte
	screen *vt.Terminal
}

// Reader is where a state is read from; nothing after the state is taken.
type Reader interface {
	io.Reader
	io.ByteReader
}

// ReadState reads what Save wrote. It opens nothing, so another process can try it.
func ReadState(r Reader) (*State, error) {
	var head savedHost
	if err := readJSON(r, &head); err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	if head.Format != stateFormat {
		return nil, fmt.Errorf("read state: it has format %d, this build reads %d", head.Format, stateFormat)
	}
	s := &State{tombs: head.Tombs}
	for range head.Terminals {
		t, err := readSaved(r)
		if err != nil {
			return nil, fmt.Errorf("read state of terminal %s: %w", t.Record.ID.Short(), err)
		}
		s.terminals = append(s.terminals, t)
	}
	return s, nil
}

func readSaved(r Reader) (t readTerminal, err error) {
	if err := readJSON(r, &t.savedTerminal); err != nil {
		return t, err
	}
	if t.out, err = readBlock(r); err != nil {
		return t, err
	}
	if len(t.out) > ringSize || int64(len(t.out)) > t.End || checkID(t.Record.ID) != nil || t.Record.PID <= 1 || t.FD < 0 {
		return t, errors.New("values out of range")
	}
	screen, err := readBlock(r)
	if err != nil {
		return t, err
	}
	t.screen, err = vt.Load(screen)
	return t, err
}

func readJSON(r Reader, v any) error {
	data, err := readBlock(r)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

func readBlock(r Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > maxBlock {
		return nil, fmt.Errorf("a part of %d bytes", n)
	}
	data := make([]byte, n)
	_, err = io.ReadFull(r, data)
	return data, err
}

// Resume makes a Host of a state in the process that saved it: the terminals are the same, and late is written to them first. A
// terminal that cannot be taken over is left out and said in the log; the others go on.
func Resume(o Options, s *State, late map[kaval.TerminalID][]byte) *Host {
	h := newHost(o)
	for _, tomb := range s.tombs {
		h.tombs.add(tombstone{tomb.ID, tomb.Code, tomb.Offset})
	}
	for _, saved := range s.terminals {
		t, err := h.adopt(saved)
		if err != nil {
			h.log.Error("terminal lost in the upgrade", "terminal", saved.Record.ID, "err", err)
			continue
		}
		if data := late[t.id]; len(data) > 0 {
			t.lane <- struct{}{}                          // before anyone else's input
			_ = h.writes.enter(context.Background(), nil) // a hand-over that comes at once takes what is left of it; never fails without an end of the context
			h.readers.Go(func() {
				defer h.writes.leave()
				defer func() { <-t.lane }()
				if err := t.writeInTurn(context.Background(), data, kaval.WriteDeadline); err != nil {
					h.log.Warn("input from before an upgrade", "terminal", t.id, "err", err)
				}
			})
		}
		t.run()
		t.kick(kickNow)
	}
	return h
}

func (h *Host) adopt(s readTerminal) (*terminal, error) {
	proc, err := pty.Adopt(s.FD, s.Record.PID)
	if err != nil {
		return nil, err
	}
	var files *initFiles
	if s.InitDir != "" {
		files = &initFiles{dir: s.InitDir}
	}
	size := kaval.Size{Cols: s.Record.Cols, Rows: s.Record.Rows}
	t := newTerminal(h, s.Record.ID, proc, size, files)
	t.screen, t.rec, t.startedAt, t.quiet = s.screen, s.Record, time.UnixMilli(s.Record.StartedAt), time.UnixMilli(s.Quiet)
	t.tap.told, t.tap.speaker = s.Told, s.Speaker
	t.lastOutput.Store(s.LastOutput)
	t.mutedUntil.Store(s.MutedUntil)
	t.out.end = s.End - int64(len(s.out))
	t.out.append(s.out)
	t.offset.Store(s.End)
	t.seq, t.dropped = s.Seq, s.Dropped
	for _, m := range s.Marks {
		t.marks = append(t.marks, mark{m.Seq, m.Offset, m.Was, m.Size})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live[t.id] = t
	h.order = append(h.order, t)
	return t, nil
}
