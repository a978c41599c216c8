package padi

import "context"

// Recorder keeps who sent what to which terminal, for people to read later. What goes to a kaval past its padi is not in it: whoever is
// attached, and kaval-tui.
type Recorder interface {
	// Recorded gives the newest sendings that a request asks for, the oldest of them first.
	Recorded(ctx context.Context, req RecordedRequest) (Recorded, error)
	// RecordText says whether the text of what is sent is kept from now on. It is not, unless somebody asks for it.
	RecordText(ctx context.Context, keep bool) error
}

// Sender is who asks something of a padi, by its own word.
type Sender struct {
	Face     string     `json:"face,omitempty"`     // the program: kolu, padi-tui, kolu mcp
	Terminal TerminalID `json:"terminal,omitempty"` // that it runs in
	Host     string     `json:"host,omitempty"`     // the machine of that terminal, where it is another one
}

// The kinds of a Sending.
const (
	SendInput  = "input"
	SendPrompt = "prompt"
	SendCreate = "create" // the command that was typed into a new terminal
	SendKill   = "kill"
)

// Sending is one thing that was sent to a terminal.
type Sending struct {
	At    int64      `json:"at"` // milliseconds since 1970 by the host's clock
	Kind  string     `json:"kind"`
	To    TerminalID `json:"to"`
	From  Sender     `json:"from"`
	Bytes int        `json:"bytes"`
	// Code says why it failed; empty where the terminal took it.
	Code string `json:"code,omitempty"`
	// Text is what was sent, where it was kept; TextCut that there was more.
	Text    string `json:"text,omitempty"`
	TextCut bool   `json:"textCut,omitempty"`
}

// RecordedRequest asks for sendings.
type RecordedRequest struct {
	// Terminal is the beginning of an id: only what went to such a terminal, or came from one. Empty asks for all.
	Terminal string `json:"terminal,omitempty"`
	Since    int64  `json:"since,omitempty"` // milliseconds since 1970
	// Limit is how many at most, up to MaxRecorded; 0 means DefaultRecorded.
	Limit int `json:"limit,omitempty"`
}

// The limits of a RecordedRequest.
const (
	DefaultRecorded = 100
	MaxRecorded     = 1000
)

// Recorded is what was found.
type Recorded struct {
	Sendings []Sending `json:"sendings"`
	More     bool      `json:"more,omitempty"` // there are older ones
	Text     bool      `json:"text,omitempty"` // texts are kept now
}

type senderKey struct{}

// WithSender notes who asks.
func WithSender(ctx context.Context, s Sender) context.Context {
	return context.WithValue(ctx, senderKey{}, s)
}

// SenderOf is who asks, as far as that is known.
func SenderOf(ctx context.Context) Sender {
	s, _ := ctx.Value(senderKey{}).(Sender)
	return s
}
