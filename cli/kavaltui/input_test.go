package kavaltui

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"

	"kolu/daemon/kaval"
)

// slowProgram is an attachment whose program takes each input only when it is told to.
type slowProgram struct {
	kaval.Attachment
	turn chan struct{}
	got  bytes.Buffer
}

func (p *slowProgram) Write(ctx context.Context, data []byte) error {
	select {
	case <-p.turn:
		p.got.Write(data)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A paste that is much larger than what the program takes at a time arrives whole.
func TestNothingOfAPasteIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, program := newOutbox(), &slowProgram{turn: make(chan struct{})}
		var want []byte
		stop := out.connect(t.Context(), program)
		for i := range 1 << 10 {
			chunk := bytes.Repeat([]byte{byte('a' + i%26)}, 4<<10)
			want = append(want, chunk...)
			out.input(t.Context(), chunk)
			if i == 0 {
				synctest.Wait() // the writer holds the first chunk
			}
		}
		close(program.turn)
		synctest.Wait()
		stop()
		if !bytes.Equal(program.got.Bytes(), want) {
			t.Errorf("%d of %d bytes arrived, or others", program.got.Len(), len(want))
		}
	})
}

func TestTypingWaitsForRoomUntilTheSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newOutbox()
		ctx, cancel := context.WithCancel(t.Context())
		out.input(ctx, make([]byte, maxQueued))
		waited := make(chan struct{})
		go func() {
			out.input(ctx, []byte("x"))
			close(waited)
		}()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("typing was taken though there is no room")
		default:
		}
		cancel()
		<-waited
	})
}
