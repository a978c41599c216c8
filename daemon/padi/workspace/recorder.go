package workspace

import (
	"context"
	"fmt"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// Record keeps what was sent; record.Log is one.
type Record interface {
	// Add keeps a sending; it is quick, and never fails the sending.
	Add(s padi.Sending, data []byte)
	Read(req padi.RecordedRequest) (padi.Recorded, error)
	KeepText(keep bool) error
}

var _ padi.Recorder = (*Workspace)(nil)

// sent records what was sent to a terminal, and how that ended.
func (w *Workspace) sent(ctx context.Context, kind string, to padi.TerminalID, data []byte, err error) {
	code := ""
	if err != nil {
		code = padi.Code(err)
	}
	w.record(ctx, kind, to, data, code)
}

func (w *Workspace) record(ctx context.Context, kind string, to padi.TerminalID, data []byte, code string) {
	if w.opt.Record != nil {
		w.opt.Record.Add(padi.Sending{At: time.Now().UnixMilli(), Kind: kind, To: to, From: padi.SenderOf(ctx), Code: code}, data)
	}
}

// Recorded gives what was sent.
func (w *Workspace) Recorded(_ context.Context, req padi.RecordedRequest) (padi.Recorded, error) {
	if w.opt.Record == nil {
		return padi.Recorded{}, noRecord()
	}
	return w.opt.Record.Read(req)
}

// RecordText says whether texts are kept from now on.
func (w *Workspace) RecordText(_ context.Context, keep bool) error {
	if w.opt.Record == nil {
		return noRecord()
	}
	return w.opt.Record.KeepText(keep)
}

func noRecord() error { return fmt.Errorf("%w: this padi keeps no record", kaval.ErrRefused) }
