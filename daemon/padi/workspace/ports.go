package workspace

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"kolu/daemon/padi"
	"kolu/daemon/padi/ports"
)

const (
	// portsEvery is how often the listening ports are looked at, portsGap the least time between two looks that something pointed to.
	portsEvery = 5 * time.Second
	portsGap   = time.Second
	// portsDuty is how many times as long as a look took is waited before the next.
	portsDuty = 20
)

// PortScan tells on which ports terminals listen; ports.Scanner is one.
type PortScan interface {
	Scan(terminals []ports.Terminal) (map[padi.TerminalID][]padi.Port, error)
}

// portSensor keeps the ports of the records true.
type portSensor struct {
	scan PortScan // nil leaves them unknown
	log  *slog.Logger
	kick chan struct{}
}

// moved asks for a look soon. It never blocks.
func (s *portSensor) moved() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// run looks until ctx ends. live gives the terminals that run, told is given what each listens on.
func (s *portSensor) run(ctx context.Context, live func() []ports.Terminal, told func(map[padi.TerminalID]padi.Ports)) {
	if s.scan == nil {
		return
	}
	for {
		pause := s.look(live(), told)
		again := time.Now().Add(pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(portsEvery, pause)):
			continue
		case <-s.kick:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(again)):
		}
	}
}

// look gives how long to wait before the next one at least. One that failed leaves what was known.
func (s *portSensor) look(terminals []ports.Terminal, told func(map[padi.TerminalID]padi.Ports)) time.Duration {
	if len(terminals) == 0 {
		return portsGap
	}
	began := time.Now()
	found, err := s.scan.Scan(terminals)
	all := map[padi.TerminalID]padi.Ports{}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		for _, t := range terminals {
			all[t.ID] = padi.Ports{Status: "unsupported"}
		}
	case err != nil:
		s.log.Debug("ports not read", "err", err)
	}
	for id, list := range found {
		all[id] = padi.Ports{Status: "known", List: list}
	}
	told(all)
	return max(portsGap, portsDuty*time.Since(began))
}

// rooted are the terminals that run.
func (r *registry) rooted() []ports.Terminal {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []ports.Terminal
	for _, id := range r.order {
		if e := r.entries[id]; e.rec.State == padi.Active {
			out = append(out, ports.Terminal{ID: id, PID: e.rec.PID})
		}
	}
	return out
}

// portsSeen folds what terminals listen on into those that still run.
func (r *registry) portsSeen(all map[padi.TerminalID]padi.Ports) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, p := range all {
		e := r.entries[id]
		if e == nil || e.rec.State != padi.Active || e.rec.Ports != nil && e.rec.Ports.Status == p.Status && slices.Equal(e.rec.Ports.List, p.List) {
			continue
		}
		before := e.rec
		e.rec.Ports = &p
		r.publishChange(e, before)
	}
}
