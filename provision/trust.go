package provision

import (
	"context"
	"errors"

	"kolu/provision/nix"
)

// AskTrust asks the host's nix-daemon whether the user is trusted; known is false where it does not say, as before Nix 2.15. It
// changes nothing there.
func AskTrust(ctx context.Context, r Runner, f Facts) (trusted, known bool, err error) {
	if f.Nix.Dir == "" {
		return false, false, errors.New("the host has no Nix")
	}
	in := &installer{run: r, facts: f, patience: usualPatience}
	cmd, err := in.start(ctx, in.serving(`"`+f.Nix.Dir+`/nix-daemon" --stdio`), newNonce())
	if err != nil {
		return false, false, err
	}
	defer cmd.close()
	trust, err := nix.AskTrust(&moving{w: cmd.proc.Stdin(), cmd: cmd, may: cmd.quick}, cmd.out)
	if err != nil {
		return false, false, in.nixFault(cmd, Closure, err, &nix.Session{})
	}
	return trust == nix.Trusted, trust != nix.TrustUnknown, nil
}
