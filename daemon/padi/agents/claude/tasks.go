package claude

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"time"

	"kolu/daemon/padi"
)

// taskScan follows a transcript from its beginning for the list of tasks, and for when the conversation began.
type taskScan struct {
	offset    int64
	startedAt int64
	status    map[string]string
}

type taskLine struct {
	Timestamp time.Time `json:"timestamp"`
	Message   struct {
		Content json.RawMessage `json:"content"`
	} `json:"message"`
	Result json.RawMessage `json:"toolUseResult"`
}

// scan takes what was added to a transcript. One that became shorter is read anew.
func (d *Detector) scan(path string) *taskScan {
	s := d.tasks[path]
	info, err := os.Stat(path)
	if err != nil {
		return &taskScan{}
	}
	if s == nil || info.Size() < s.offset {
		s = &taskScan{status: map[string]string{}}
		d.tasks[path] = s
	}
	if info.Size() == s.offset {
		return s
	}
	f, err := os.Open(path)
	if err != nil {
		return s
	}
	defer f.Close()
	if _, err := f.Seek(s.offset, io.SeekStart); err != nil {
		return s
	}
	r := bufio.NewReaderSize(f, 1<<20)
	for {
		l, err := r.ReadBytes('\n')
		if err != nil { // the last line may be half written
			return s
		}
		s.offset += int64(len(l))
		s.take(l)
	}
}

func (s *taskScan) take(raw []byte) {
	interesting := s.startedAt == 0 || bytes.Contains(raw, []byte(`"task"`)) || bytes.Contains(raw, []byte(`"TaskUpdate"`))
	var l taskLine
	if !interesting || json.Unmarshal(raw, &l) != nil {
		return
	}
	if s.startedAt == 0 && !l.Timestamp.IsZero() {
		s.startedAt = l.Timestamp.UnixMilli()
	}
	var result struct {
		Task struct {
			ID string `json:"id"`
		} `json:"task"`
	}
	if json.Unmarshal(l.Result, &result) == nil && result.Task.ID != "" {
		s.status[result.Task.ID] = "pending"
	}
	for _, b := range blocks(l.Message.Content) {
		if b.Type != "tool_use" || b.Name != "TaskUpdate" {
			continue
		}
		var in struct{ TaskID, Status string }
		if json.Unmarshal(b.Input, &in) == nil && in.TaskID != "" && in.Status != "" {
			s.status[in.TaskID] = in.Status
		}
	}
}

func (s *taskScan) progress() *padi.Progress {
	var p padi.Progress
	for _, status := range s.status {
		switch status {
		case "deleted":
		case "completed":
			p.Total++
			p.Completed++
		default:
			p.Total++
		}
	}
	if p.Total == 0 {
		return nil
	}
	return &p
}
