package nix

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

func TestBase32ThereAndBack(t *testing.T) {
	for size := range 40 {
		raw := make([]byte, size)
		rand.Read(raw)
		got, err := parseBase32(Base32(raw), size)
		if err != nil || !bytes.Equal(got, raw) {
			t.Errorf("%x came back as %x, %v", raw, got, err)
		}
	}
	for _, bad := range []string{"", "e", "zz", "0e", strings.Repeat("0", 53)} {
		if _, err := parseBase32(bad, 1); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestReferencesFirst(t *testing.T) {
	infos := map[string]PathInfo{}
	for path, refs := range map[string]string{"a": "b c a", "b": "d", "c": "d b", "d": "", "e": "a"} {
		infos[path] = PathInfo{Path: path, References: strings.Fields(refs)}
	}
	got, err := referencesFirst([]string{"a", "e", "d", "b", "c"}, infos)
	if err != nil {
		t.Fatal(err)
	}
	var order string
	for _, info := range got {
		order += info.Path
	}
	if order != "dbcae" {
		t.Errorf("got %s", order)
	}
	infos["d"] = PathInfo{Path: "d", References: []string{"a"}}
	if _, err := referencesFirst([]string{"a"}, infos); err == nil {
		t.Error("a circle: no error")
	}
	delete(infos, "d")
	if _, err := referencesFirst([]string{"a"}, infos); err == nil {
		t.Error("a reference that is not in the closure: no error")
	}
}

// TestAddAllDoesNotWaitForAnswers has a server that answers nothing until every archive is there: whoever waits for one answer
// after the other never gets it.
func TestAddAllDoesNotWaitForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fromUs, toServer := io.Pipe()
		fromServer, toUs := io.Pipe()
		var infos []PathInfo
		for i := range 100 {
			infos = append(infos, PathInfo{Path: fmt.Sprintf("/nix/store/%d", i), NarHash: strings.Repeat("0", 64), NarSize: 100_000, Sigs: []string{"k:s"}})
		}
		var order []string
		go func() {
			in := reader{newSession(io.Discard, fromUs).r.r}
			for range infos {
				if op, err := in.u64(); err != nil || op != opAddToStoreNar {
					t.Errorf("got op %d, %v", op, err)
					toUs.CloseWithError(io.ErrUnexpectedEOF)
					return
				}
				path, _ := in.str()
				order = append(order, path)
				in.str()
				in.str()
				in.list()
				in.u64()
				size, _ := in.u64()
				in.u64()
				in.list()
				in.str()
				io.CopyN(io.Discard, in.r, int64(size))
			}
			for range infos {
				toUs.Write(binary.LittleEndian.AppendUint64(nil, 1))
			}
		}()
		s := newSession(toServer, fromServer)
		var told int64
		err := s.AddAll(infos, func(p PathInfo, w io.Writer) error {
			_, err := w.Write(make([]byte, p.NarSize))
			return err
		}, func(n int64) { told = n })
		if err != nil || told != 100*100_000 {
			t.Errorf("got %v after %d bytes", err, told)
		}
		if !slices.Equal(order, slices.Collect(func(yield func(string) bool) {
			for _, i := range infos {
				if !yield(i.Path) {
					return
				}
			}
		})) {
			t.Errorf("the order is %v", order)
		}
	})
}

// TestAddAllEndsWithTheServer has a server that ends in the middle.
func TestAddAllEndsWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fromUs, toServer := io.Pipe()
		fromServer, toUs := io.Pipe()
		go func() {
			io.CopyN(io.Discard, fromUs, 150_000)
			toUs.Close()
		}()
		s := newSession(toServer, fromServer)
		err := s.AddAll([]PathInfo{{Path: "/a", NarSize: 100_000}, {Path: "/b", NarSize: 100_000}}, func(p PathInfo, w io.Writer) error {
			_, err := w.Write(make([]byte, p.NarSize))
			return err
		}, nil)
		if err == nil || !strings.Contains(err.Error(), io.EOF.Error()) {
			t.Errorf("got %v", err)
		}
		fromUs.Close()
		s.Settle(0)
	})
}

func TestAskTrust(t *testing.T) {
	for name, tt := range map[string]struct {
		server []uint64 // after the magic; a version of Nix comes after the first of them where there is more than one
		want   Trust
	}{
		"trusted": {[]uint64{0x126, 1}, Trusted}, "not": {[]uint64{0x123, 2}, Untrusted}, "does not say": {[]uint64{0x123, 0}, TrustUnknown}, "old": {[]uint64{0x122}, TrustUnknown},
	} {
		var said bytes.Buffer
		out := &writer{w: newSession(&said, nil).w.w}
		out.raw([]byte("Welcome\n"))
		out.u64(workerServer)
		out.u64(tt.server[0])
		if len(tt.server) > 1 {
			out.str("2.26")
			out.u64(tt.server[1])
		}
		out.flush()
		if got, err := AskTrust(io.Discard, &said); err != nil || got != tt.want {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	for _, garbage := range []string{"", "no daemon here", "\x6f\x69\x78\x64\x00\x00\x00\x00"} {
		if _, err := AskTrust(io.Discard, strings.NewReader(garbage)); err == nil {
			t.Errorf("%q: no error", garbage)
		}
	}
}
