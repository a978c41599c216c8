package kaval

import (
	"errors"
	"fmt"
)

// The errors of the contract. Each has a stable code that crosses the wire, so errors.Is holds near and far.
var (
	ErrNoTerminal = errors.New("no such terminal")
	ErrGone       = errors.New("terminal has ended")
	ErrExists     = errors.New("terminal exists")
	ErrInvalid    = errors.New("invalid request")
	ErrSpawn      = errors.New("program could not be started")
	ErrLimit      = errors.New("host limit reached")
	ErrStalled    = errors.New("program does not read its input")
	ErrSurvivors  = errors.New("processes survived the kill")
	ErrRefused    = errors.New("refused")
	ErrClosing    = errors.New("daemon is shutting down")
	// ErrMoving is an ErrClosing after which the same terminals go on: another build takes the daemon over, and what was asked can be
	// asked again at once.
	ErrMoving error = &wireError{detail: "another build takes the daemon over", kind: ErrClosing}
)

var codes = []struct {
	code string
	err  error
}{
	{"no-terminal", ErrNoTerminal},
	{"gone", ErrGone},
	{"exists", ErrExists},
	{"invalid", ErrInvalid},
	{"spawn-failed", ErrSpawn},
	{"limit", ErrLimit},
	{"stalled", ErrStalled},
	{"survivors", ErrSurvivors},
	{"refused", ErrRefused},
	{"moving", ErrMoving},
	{"closing", ErrClosing},
	{"upgrade-failed", ErrUpgrade},
}

// GoneError is an ErrGone that knows how the terminal ended. It is made by a host; over a wire only its sentence and its being
// an ErrGone are kept, so who needs the code asks by Wait.
type GoneError struct {
	ID       TerminalID
	ExitCode int
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("terminal %s has ended with exit code %d", e.ID.Short(), e.ExitCode)
}
func (e *GoneError) Unwrap() error { return ErrGone }

// CutShortError is input that was broken off while the program took it, because nobody waits for it any more. It is made by a host.
type CutShortError struct {
	Taken, Of int // bytes
	Err       error
}

func (e *CutShortError) Error() string {
	return fmt.Sprintf("%v (the program took %d of %d bytes)", e.Err, e.Taken, e.Of)
}
func (e *CutShortError) Unwrap() error { return e.Err }

// Code is the stable code of an error of this contract, or "internal".
func Code(err error) string {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return "internal"
}

// FromCode makes the error for a code that came over a wire, with the sentence the host gave. An unknown code gives
// a plain error with the sentence.
func FromCode(code, detail string) error {
	for _, c := range codes {
		if c.code == code {
			return &wireError{detail: detail, kind: c.err}
		}
	}
	return errors.New(detail)
}

type wireError struct {
	detail string
	kind   error
}

func (e *wireError) Error() string { return e.detail }
func (e *wireError) Unwrap() error { return e.kind }

// Invalidf makes an error that wraps ErrInvalid and reads as its sentence alone.
func Invalidf(format string, args ...any) error {
	return &wireError{detail: fmt.Sprintf(format, args...), kind: ErrInvalid}
}
