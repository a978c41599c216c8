package padi

import "context"

// KavalUpgrader is a Workspace whose padi can make its kaval the padi's own build, in place. It happens only when it is asked for.
type KavalUpgrader interface {
	// UpgradeKaval returns when kaval is that build, with every terminal as it was. kaval.ErrUpgrade says that it cannot be; nothing has
	// changed then.
	UpgradeKaval(ctx context.Context) (KavalStatus, error)
}
