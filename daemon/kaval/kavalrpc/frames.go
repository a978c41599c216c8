package kavalrpc

import (
	"encoding/binary"
	"fmt"

	"kolu/daemon/kaval"
)

// The tags of the messages of an attachment.
const (
	tagSnapshot = 'S'
	tagData     = 'D'
	tagOverflow = 'O'
	tagResized  = 'R'
	tagExit     = 'X'
	tagTaken    = 'A'
	tagInput    = 'I' // to the host, with tagResized
	tagNumbered = 'K' // to the host
)

// appendFrame encodes a frame for a client.
func appendFrame(b []byte, f kaval.Frame) []byte {
	be := binary.BigEndian
	switch f.Kind {
	case kaval.FrameSnapshot, kaval.FrameData:
		tag := byte(tagData)
		if f.Kind == kaval.FrameSnapshot {
			tag = tagSnapshot
		}
		b = be.AppendUint64(append(b, tag), uint64(f.Offset))
		return append(appendSize(b, f.Size), f.Data...)
	case kaval.FrameOverflow:
		b = be.AppendUint64(append(b, tagOverflow), uint64(f.Lost))
		return be.AppendUint64(b, uint64(f.Offset))
	case kaval.FrameResized:
		return appendSize(append(b, tagResized), f.Size)
	case kaval.FrameExit:
		return be.AppendUint32(append(b, tagExit), uint32(int32(f.ExitCode)))
	}
	return b
}

// parseFrame decodes a message of the host; known is false for a tag of a later version. A frame that carries no offset gets at.
func parseFrame(msg []byte, at int64) (f kaval.Frame, known bool, err error) {
	if len(msg) == 0 {
		return f, false, fmt.Errorf("empty message")
	}
	be, rest := binary.BigEndian, msg[1:]
	f.Offset = at
	switch tag := msg[0]; tag {
	case tagSnapshot, tagData:
		if len(rest) < 12 {
			return f, true, cutShort(tag)
		}
		f.Kind = kaval.FrameData
		if tag == tagSnapshot {
			f.Kind = kaval.FrameSnapshot
		}
		f.Offset, f.Size, f.Data = int64(be.Uint64(rest)), parseSize(rest[8:]), rest[12:]
	case tagOverflow:
		if len(rest) < 16 {
			return f, true, cutShort(tag)
		}
		f.Kind, f.Lost, f.Offset = kaval.FrameOverflow, int64(be.Uint64(rest)), int64(be.Uint64(rest[8:]))
	case tagResized:
		if len(rest) < 4 {
			return f, true, cutShort(tag)
		}
		f.Kind, f.Size = kaval.FrameResized, parseSize(rest)
	case tagExit:
		if len(rest) < 4 {
			return f, true, cutShort(tag)
		}
		f.Kind, f.ExitCode = kaval.FrameExit, int(int32(be.Uint32(rest)))
	default:
		return f, false, nil
	}
	if f.Offset < 0 || f.Lost < 0 {
		return f, true, fmt.Errorf("message %q has a negative offset", msg[0])
	}
	return f, true, nil
}

func cutShort(tag byte) error { return fmt.Errorf("message %q is cut short", tag) }

func appendSize(b []byte, s kaval.Size) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(s.Cols))
	return binary.BigEndian.AppendUint16(b, uint16(s.Rows))
}

// parseSize reads the four bytes of a size, which must be there.
func parseSize(b []byte) kaval.Size {
	return kaval.Size{Cols: int(binary.BigEndian.Uint16(b)), Rows: int(binary.BigEndian.Uint16(b[2:]))}
}
