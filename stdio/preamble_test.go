package stdio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"kolu/internal/fault"
)

func TestReadPreamble(t *testing.T) {
	const tail = "@kolu n1 mark not ours any more\n\x00\x01"
	banner := `@kolu n1 banner {"v":1,"verdict":"ready","contract":"1.0","pid":7,"later":true}` + "\n"
	want := &Banner{V: 1, Verdict: Ready, Contract: "1.0", PID: 7}
	for _, c := range []struct {
		name, in string
		want     Preamble
		code     fault.Code
		rest     string
	}{
		{"banner alone", banner + tail, Preamble{Banner: want, Heard: true}, "", tail},
		{"noise before", "Welcome!\nLast login: today\n" + banner + tail,
			Preamble{Banner: want, Heard: true, Noise: "Welcome!\nLast login: today\n"}, "", tail},
		{"noise without a newline", "fortune: " + banner + tail, Preamble{Banner: want, Heard: true, Noise: "fortune: "}, "", tail},
		{"noise between", "@kolu n1 mark exec\nzsh: hello\n" + banner,
			Preamble{Banner: want, Heard: true, Noise: "zsh: hello\n", LastMark: "exec"}, "", ""},
		{"another nonce is noise", "@kolu n2 end\n" + banner, Preamble{Banner: want, Heard: true, Noise: "@kolu n2 end\n"}, "", ""},
		{"facts", "@kolu n1 fact os Linux\n@kolu n1 fact home /home/a b\n@kolu n1 fact empty\n@kolu n1 end\n" + tail,
			Preamble{Heard: true, Facts: map[string]string{"os": "Linux", "home": "/home/a b", "empty": ""}}, "", tail},
		{"unknown word", "@kolu n1 colour red\n" + banner, Preamble{Banner: want, Heard: true}, "", ""},
		{"nothing", "", Preamble{}, fault.NoShell, ""},
		{"only noise", "This account is currently not available.", Preamble{Noise: "This account is currently not available."}, fault.NoShell, ""},
		{"ends after a mark", "@kolu n1 mark exec\n", Preamble{Heard: true, LastMark: "exec"}, fault.FrontDied, ""},
		{"terminal on the wire", "@kolu n1 mark exec\r\n", Preamble{Heard: true}, fault.PTYOnWire, ""},
		{"broken banner", "@kolu n1 banner {\n", Preamble{Heard: true}, fault.FrontRefused, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, one := range []bool{false, true} {
				var r io.Reader = strings.NewReader(c.in)
				if one {
					r = iotest.OneByteReader(r)
				}
				got, err := ReadPreamble(t.Context(), r, "n1")
				if c.code == "" && err != nil || c.code != "" && !fault.Is(err, c.code) {
					t.Fatalf("error %v, want code %q", err, c.code)
				}
				if d := cmp.Diff(c.want, got); d != "" {
					t.Error(d)
				}
				if rest, _ := io.ReadAll(r); c.code == "" && string(rest) != c.rest {
					t.Errorf("left %q, want %q", rest, c.rest)
				}
			}
		})
	}
}

func TestReadPreambleBoundsNoise(t *testing.T) {
	r := &endless{text: "and on and on\n"}
	got, err := ReadPreamble(t.Context(), r, "n1")
	if !fault.Is(err, fault.Noise) {
		t.Fatalf("error %v, want noise", err)
	}
	if r.n > maxNoise+maxLine || len(got.Noise) > maxNoise+maxLine {
		t.Errorf("read %d bytes and kept %d", r.n, len(got.Noise))
	}
	if _, err := ReadPreamble(t.Context(), &endless{text: "no newline "}, "n1"); !fault.Is(err, fault.Noise) {
		t.Errorf("one endless line: error %v, want noise", err)
	}
	if _, err := ReadPreamble(t.Context(), &endless{text: "@kolu n1 mark on and on\n"}, "n1"); err == nil {
		t.Error("endless marks were taken")
	}
}

type endless struct {
	text string
	n    int
}

func (e *endless) Read(b []byte) (int, error) {
	b[0] = e.text[e.n%len(e.text)]
	e.n++
	return 1, nil
}

func TestReadPreambleEndsWithItsContext(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		io.WriteString(w, "@kolu n1 mark asked\n")
		cancel(errors.New("enough"))
	}()
	got, err := ReadPreamble(ctx, r, "n1")
	if err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("error %v, want the cause of the context", err)
	}
	if got.LastMark != "asked" {
		t.Errorf("mark %q was lost", got.LastMark)
	}
}

func TestWriteBanner(t *testing.T) {
	var b bytes.Buffer
	in := Banner{Verdict: Refused, Code: "contract", Detail: "line one\nline two", Warnings: []string{"a"}}
	if err := WriteMark(&b, "n1", "two\nlines"); err != nil {
		t.Fatal(err)
	}
	if err := WriteBanner(&b, "n1", in); err != nil {
		t.Fatal(err)
	}
	got, err := ReadPreamble(t.Context(), &b, "n1")
	if err != nil {
		t.Fatal(err)
	}
	in.V = BannerVersion
	if d := cmp.Diff(&in, got.Banner); d != "" {
		t.Error(d)
	}
	if got.LastMark != "two lines" {
		t.Errorf("mark %q", got.LastMark)
	}
	if err := WriteBanner(&b, "n 1", in); err == nil {
		t.Error("a nonce with a space was taken")
	}
	if err := WriteBanner(&b, "n1", Banner{Detail: strings.Repeat("x", maxBanner)}); err == nil {
		t.Error("a banner over the limit was written")
	}
}

func FuzzReadPreamble(f *testing.F) {
	f.Add([]byte("hello\n@kolu n1 fact a b\n"), []byte("rest"))
	f.Add([]byte("@kolu n1 banner {\r\n"), []byte{})
	f.Add([]byte("@kolu n1 "), []byte("@kolu n1 end\n"))
	f.Fuzz(func(t *testing.T, noise, rest []byte) {
		var in bytes.Buffer
		in.Write(noise)
		in.WriteString("\n")
		if err := WriteBanner(&in, "n1", Banner{Verdict: Ready}); err != nil {
			t.Fatal(err)
		}
		in.Write(rest)
		got, err := ReadPreamble(t.Context(), &in, "n1")
		if bytes.Contains(noise, []byte("@kolu n1 ")) || len(noise) >= maxNoise {
			return // the host may say what it likes; it must only not break us
		}
		if err != nil || got.Banner == nil || got.Banner.Verdict != Ready {
			t.Fatalf("banner after noise %q: %+v, %v", noise, got, err)
		}
		if !bytes.Equal(in.Bytes(), rest) {
			t.Fatalf("left %q, want %q", in.Bytes(), rest)
		}
	})
}
