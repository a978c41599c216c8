package workspace

import (
	"context"
	"fmt"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

var _ padi.KavalUpgrader = (*Workspace)(nil)

// UpgradeKaval makes kaval this padi's build. The line to it is lost for a moment; the terminals are the same.
func (w *Workspace) UpgradeKaval(ctx context.Context) (padi.KavalStatus, error) {
	if w.opt.Upgrade == nil {
		return padi.KavalStatus{}, fmt.Errorf("%w: this padi cannot upgrade its kaval", kaval.ErrRefused)
	}
	return w.opt.Upgrade(ctx)
}
