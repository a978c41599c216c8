package supervise

import (
	"context"
	"fmt"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// Upgrade makes kaval this padi's build, in the same process, as Options.Upgrade does it. A kaval of a contract that this padi
// cannot use is taken over by the next try of Run.
func (s *Supervisor) Upgrade(ctx context.Context) (padi.KavalStatus, error) {
	if s.opt.Upgrade == nil {
		return s.Status(), fmt.Errorf("%w: this padi cannot upgrade its kaval", kaval.ErrRefused)
	}
	if err := s.opt.Upgrade(ctx); err != nil {
		return s.Status(), err
	}
	if err := s.greet(ctx); err != nil {
		return s.Status(), fmt.Errorf("kaval after the upgrade: %w", err)
	}
	status := s.Status()
	s.log.Info("kaval is another build now", "pid", status.PID, "build", status.Build)
	return status, nil
}
