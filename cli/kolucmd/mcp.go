package kolucmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/mcp"
	"kolu/cli/paditui"
	"kolu/internal/version"
)

func newMCP(env *cli.Env, f *paditui.Face, connect paditui.Connect) *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Serve the verbs as MCP tools on stdin and stdout, for agents",
		Long: `Serve the verbs as MCP tools on stdin and stdout, so that an agent can drive others: claude mcp add kolu -- kolu mcp. It reaches
its padi before it answers, and exits 1 when it cannot.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := runMCP(cmd.Context(), env, f, connect); err != nil && cmd.Context().Err() == nil {
				fmt.Fprintf(env.Stderr, "kolu mcp: %s\n", err)
				return cli.Exit(1, nil)
			}
			return nil
		},
	}
}

func runMCP(ctx context.Context, env *cli.Env, f *paditui.Face, connect paditui.Connect) error {
	ep, err := f.Endpoint()
	if err != nil {
		return err
	}
	face := *env
	face.Name = "kolu mcp"
	return mcp.Serve(ctx, readCloser(env.Stdin), writeCloser{env.Stdout}, mcp.Options{
		Dial:    func(ctx context.Context) (mcp.Conn, error) { return connect(ctx, &face, ep) },
		Version: version.Version,
		Log:     slog.New(slog.DiscardHandler),
	})
}

func readCloser(r io.Reader) io.ReadCloser {
	if rc, ok := r.(io.ReadCloser); ok {
		return rc
	}
	return io.NopCloser(r)
}

type writeCloser struct{ io.Writer }

func (writeCloser) Close() error { return nil }
