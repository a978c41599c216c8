package kavaltui

import (
	"strings"
	"testing"

	"kolu/daemon/kaval/vt"
)

// scanAll feeds chunks and gives what was sent, and the number of helps; detached ends it.
func scanAll(chunks ...string) (sent string, helps int, detached bool) {
	s := &scanner{escape: '~'}
	for _, c := range chunks {
		a := s.scan([]byte(c))
		sent += string(a.send)
		if a.help {
			helps++
		}
		if a.detach {
			return sent, helps, true
		}
	}
	return sent, helps, false
}

func TestEscape(t *testing.T) {
	tests := []struct {
		name     string
		chunks   []string
		sent     string
		helps    int
		detached bool
	}{
		{"at the session's start", []string{"~."}, "", 0, true},
		{"after CR", []string{"ls\r~."}, "ls\r", 0, true},
		{"after LF", []string{"ls\n~."}, "ls\n", 0, true},
		{"text in the same chunk is kept", []string{"echo hi\r~.rest"}, "echo hi\r", 0, true},
		{"split over chunks", []string{"\r~", "."}, "\r", 0, true},
		{"in a line", []string{"a~."}, "a~.", 0, false},
		{"doubled sends one", []string{"~~."}, "~.", 0, false},
		{"doubled is in the line", []string{"~~", "~."}, "~~.", 0, false},
		{"other character sends both", []string{"~x"}, "~x", 0, false},
		{"help stays at the line start", []string{"~?~."}, "", 1, true},
		{"a tilde and CR is a line", []string{"~\r~."}, "~\r", 0, true},
		{"in a paste", []string{"\x1b[200~a\n~.b\x1b[201~"}, "\x1b[200~a\n~.b\x1b[201~", 0, false},
		{"paste marker split", []string{"\x1b[20", "0~\r~.", "\x1b[2", "01~"}, "\x1b[200~\r~.\x1b[201~", 0, false},
		{"stray ESC before the marker", []string{"\x1b\x1b[200~\n~."}, "\x1b\x1b[200~\n~.", 0, false},
		{"after a paste is in the line", []string{"\x1b[200~x\n\x1b[201~~."}, "\x1b[200~x\n\x1b[201~~.", 0, false},
		{"works again after a paste and CR", []string{"\x1b[200~x\x1b[201~\r~."}, "\x1b[200~x\x1b[201~\r", 0, true},
		{"split UTF-8 passes", []string{"\xc3", "\xa9~."}, "é~.", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sent, helps, detached := scanAll(tt.chunks...)
			if sent != tt.sent || helps != tt.helps || detached != tt.detached {
				t.Errorf("got %q, %d helps, detached %v; want %q, %d, %v", sent, helps, detached, tt.sent, tt.helps, tt.detached)
			}
		})
	}
}

// Whatever the chunks, the same keys do the same.
func FuzzEscapeSplits(f *testing.F) {
	for _, s := range []string{"~.", "a\r~.", "\x1b[200~\n~.\x1b[201~~.", "~~~?\r~x~.", "\x1b\x1b[200~"} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, in string, at int) {
		if at < 0 || at > len(in) {
			t.Skip("not a place to split at")
		}
		s1, _, d1 := scanAll(in)
		s2, _, d2 := scanAll(in[:at], in[at:])
		if s1 != s2 || d1 != d2 {
			t.Errorf("whole: %q %v; split at %d: %q %v", s1, d1, at, s2, d2)
		}
	})
}

// Whatever our own screen answers, an emulator of the user's answers too: every such answer is taken out of what is typed.
func TestStripTakesWhatTheScreenAnswers(t *testing.T) {
	for _, question := range []string{
		"\x1b[c", "\x1bZ", "\x1b[>c", "\x1b[5n", "\x1b[6n", "\x1b[?6n", "\x1b[>q", "\x1b[?2004$p", "\x1b[20$p", "\x1b[?9999$p",
		"\x1bP$qm\x1b\\", "\x1bP$qz\x1b\\", "\x1bP+q436f;5A5A\x1b\\", "\x1b[?u", "\x1b]7501;?\x1b\\", "\x1b]7501;?\a",
	} {
		screen := vt.New(vt.Options{Cols: 80, Rows: 24, Name: "x"})
		screen.Write([]byte("\x1b[2;3H" + question))
		answer := screen.Drain()
		if len(answer) == 0 {
			t.Errorf("%q is not answered", question)
		}
		for at := range answer {
			var s stripper
			got := append(s.strip([]byte("k")), s.strip(answer[:at])...)
			got = append(got, s.strip(append(answer[at:len(answer):len(answer)], "ey"...))...)
			alone := at > 0 && answer[at-1] == 0x1b && answer[at] != '\\' // an ESC at the end is a key
			if !alone && string(got) != "key" {
				t.Errorf("%q in %q, cut at %d: typed was %q", answer, question, at, got)
			}
		}
	}
}

func TestStrip(t *testing.T) {
	tests := []struct {
		name   string
		chunks []string
		want   string
	}{
		{"keys pass", []string{"ls -l\r\x1b[A\x1b[1;5C\x1bOP\x1bb\x7f"}, "ls -l\r\x1b[A\x1b[1;5C\x1bOP\x1bb\x7f"},
		{"primary attributes", []string{"a\x1b[?62;22cb"}, "ab"},
		{"secondary attributes", []string{"\x1b[>0;276;0c"}, ""},
		{"cursor position", []string{"\x1b[12;40R"}, ""},
		{"status", []string{"\x1b[0n"}, ""},
		{"mode", []string{"\x1b[?2004;2$y"}, ""},
		{"size", []string{"\x1b[8;24;80t"}, ""},
		{"palette and colours", []string{"\x1b]4;1;rgb:ff/ff/ff\x07\x1b]11;rgb:00/00/00\x1b\\x"}, "x"},
		{"version and setting", []string{"\x1bP>|xterm(390)\x1b\\\x1bP1$r0m\x1b\\"}, ""},
		{"kitty keyboard flags", []string{"\x1b[?5u", "\x1b[?0", "u"}, ""},
		{"kitty keys pass", []string{"\x1b[97;5u\x1b[27u"}, "\x1b[97;5u\x1b[27u"},
		{"terminfo", []string{"\x1bP1+r436f=323536\x1b\\a\x1bP0+r5A5A\x1b\\"}, "a"},
		{"two in one chunk and a key between", []string{"\x1b[0nq\x1b[1;1R"}, "q"},
		{"split", []string{"\x1b[?6", "2;22", "cx"}, "x"},
		{"split at the string's end", []string{"\x1b]11;rgb:0/0/0\x1b", "\\x"}, "x"},
		{"Escape key at once", []string{"\x1b"}, "\x1b"},
		{"Escape and a key stay two", []string{"\x1b", "a"}, "\x1ba"},
		{"Alt-] and a key", []string{"\x1b]", "x"}, "\x1b]x"},
		{"clipboard passes", []string{"\x1b]52;c;" + strings.Repeat("QUJD", 5000) + "\x07"}, "\x1b]52;c;" + strings.Repeat("QUJD", 5000) + "\x07"},
		{"paste passes", []string{"\x1b[200~text\x1b[201~"}, "\x1b[200~text\x1b[201~"},
		{"an unended string is given up", []string{"\x1b]4;" + strings.Repeat("x", maxHeld)}, "\x1b]4;" + strings.Repeat("x", maxHeld)},
		{"a run of ESC is given up", []string{"\x1b]4;" + strings.Repeat("\x1b", 100) + "k"}, "\x1b]4;" + strings.Repeat("\x1b", 100) + "k"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &stripper{}
			var got string
			for _, c := range tt.chunks {
				got += string(s.strip([]byte(c)))
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
