package nix

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
)

// server plays nix-store --serve --write of one version: it greets, says that the path is not valid, takes one archive and says that it is
// valid now.
func server(c net.Conn, version uint64, narSize int64) error {
	defer c.Close()
	in := reader{bufio.NewReader(c)}
	say := func(words ...uint64) error {
		var b []byte
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		_, err := c.Write(b)
		return err
	}
	query := func() error { // op, lock, substitute, one path
		for range 4 {
			if _, err := in.u64(); err != nil {
				return err
			}
		}
		_, err := in.str()
		return err
	}
	magic, err := in.u64()
	if err != nil || magic != clientMagic {
		return errors.Join(err, errors.New("no client"))
	}
	client, err := in.u64()
	if err != nil {
		return err
	}
	if err := say(serverMagic, version); err != nil {
		return err
	}
	if min(client, version) < minVersion {
		return nil
	}
	if err := query(); err != nil {
		return err
	}
	if err := say(0); err != nil {
		return err
	}
	op, err := in.u64()
	if err != nil || op != opAddToStoreNar {
		return errors.Join(err, errors.New("no archive"))
	}
	for _, field := range []string{"path", "deriver", "hash"} {
		if _, err := in.str(); err != nil {
			return errors.Join(err, errors.New(field))
		}
	}
	if _, err := in.list(); err != nil { // references
		return err
	}
	for range 3 { // time, size, ultimate
		if _, err := in.u64(); err != nil {
			return err
		}
	}
	if _, err := in.list(); err != nil { // signatures
		return err
	}
	if _, err := in.str(); err != nil { // ca
		return err
	}
	if _, err := io.CopyN(io.Discard, in.r, narSize); err != nil {
		return err
	}
	return say(1)
}

// TestEveryVersionOfTheServer has the greetings of Nix from 2.0 on, of Lix and Determinate, which speak the version of the Nix that they
// come from, and of one to come: each takes the archive in the same words, and one that cannot is named.
func TestEveryVersionOfTheServer(t *testing.T) {
	tree := file("x", "content", true)
	var nar bytes.Buffer
	if err := WriteNAR(&nar, tree); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		version uint64
		takes   bool
	}{
		"2.0": {0x204, false}, "2.1 to 2.3": {0x205, true}, "a version between": {0x206, true},
		"2.4 to 2.34, Lix, Determinate": {0x207, true}, "2.35": {0x208, true}, "to come": {0x2ff, true},
		"another protocol": {0x301, false}, "an old protocol": {0x105, false},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := net.Pipe()
			ended := make(chan error, 1)
			go func() { ended <- server(there, tt.version, int64(nar.Len())) }()
			s, valid, err := Open(here, here, "/nix/store/"+"0123456789abcdfghijklmnpqrsvwxyz"+"-x")
			if !tt.takes {
				if !errors.Is(err, ErrNotServe) {
					t.Errorf("got %v", err)
				}
				here.Close()
				<-ended
				return
			}
			if err != nil || valid {
				t.Fatalf("valid %v, %v", valid, err)
			}
			if err := s.Add("/nix/store/0123456789abcdfghijklmnpqrsvwxyz-x", "00", int64(nar.Len()), tree, func(int64) {}); err != nil {
				t.Error(err)
			}
			here.Close()
			if err := <-ended; err != nil {
				t.Errorf("the server: %v", err)
			}
		})
	}
}
