package kolucmd

import (
	"context"
	"net"
	"path/filepath"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/stdio"
)

// newBridge is what `kolu host` runs on a host to ask a daemon there who it is: it carries connections between stdin, stdout and one
// socket, and starts nothing.
func newBridge(env *cli.Env) *cobra.Command {
	nonce := ""
	cmd := &cobra.Command{
		Use:    "bridge --nonce NONCE SOCKET",
		Short:  "Carry connections between stdin, stdout and a socket",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			socket := args[0]
			if !filepath.IsAbs(socket) {
				socket = filepath.Join(env.Dir, socket)
			}
			if err := stdio.WriteBanner(env.Stdout, nonce, stdio.Banner{Verdict: stdio.Ready, Socket: socket}); err != nil {
				return err
			}
			return stdio.Serve(cmd.Context(), env.Stdin, env.Stdout, func(ctx context.Context) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", socket)
			})
		},
	}
	cmd.Flags().StringVar(&nonce, "nonce", "", "the word that marks our lines")
	return cmd
}
