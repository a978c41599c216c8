package ssh

import (
	"os"
	"strings"
	"testing"

	"kolu/internal/fault"
)

// What a proxy prints is told while the login waits for the user, by both transports.
func TestNoticesWhileConnecting(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []Kind{Master, Native} {
		t.Run(string(kind), func(t *testing.T) {
			s := sshd(t, "", "ProxyCommand sh -c 'echo open https://login.example/\x1b[31m >&2; while [ ! -e ~/go ]; do sleep 0.05; done; exec "+self+" proxy %h %p'")
			o := s.options(kind)
			told := make(chan string, 9)
			o.Notice = func(l string) { told <- l }
			ended := make(chan error, 1)
			go func() { ended <- once(t.Context(), o) }()
			select {
			case line := <-told:
				if !strings.Contains(line, "https://login.example/") || strings.Contains(line, "\x1b") {
					t.Errorf("told %q", line)
				}
			case err := <-ended:
				t.Fatalf("nothing was told: %v", err)
			}
			s.write("go", "")
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// What stands in the error of a login that fails at once is not told beside.
func TestNoticesOfALoginThatFails(t *testing.T) {
	s := sshd(t, "", "ProxyCommand sh -c 'echo I give up >&2; exit 1'")
	for _, kind := range []Kind{Master, Native} {
		o := s.options(kind)
		o.Notice = func(l string) { t.Errorf("%s: told %q", kind, l) }
		if err := once(t.Context(), o); !fault.Is(err, fault.Unreachable) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
