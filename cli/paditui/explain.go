package paditui

import (
	"fmt"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/padi"
)

// Explain shows the evidence for what a terminal's agent is said to do.
func (f *Face) Explain() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain <id>",
		Short: "Show why a terminal's agent is said to do what it does",
		Long: `Show why a terminal's agent is said to do what it does: what the terminal, the agent's own status, its files and its screen say, each with
the age of what it says. A star marks what is believed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withTerminal(cmd.Context(), args[0], func(c *client.PadiClient, id padi.TerminalID) error {
				k, err := c.Agents()
				if err != nil {
					return err
				}
				x, err := k.Explain(cmd.Context(), id)
				switch {
				case err != nil:
					return err
				case asJSON:
					return drive.WriteJSON(f.env.Stdout, x)
				}
				return f.printExplanation(x)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the explanation as JSON")
	return cmd
}

func (f *Face) printExplanation(x padi.Explanation) error {
	for _, fact := range explained(x) {
		if fact[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(f.env.Stdout, "%-9s %s\n", fact[0], drive.Clean(fact[1])); err != nil {
			return err
		}
	}
	rows := [][]string{{"", "SOURCE", "SAYS", "AGE", "DETAIL"}}
	for _, e := range x.Evidence {
		mark, says, age := "", string(e.State), ""
		if e.Used {
			mark = "*"
		}
		if says == "" {
			says = drive.Dash
		}
		if e.AgeMS > 0 {
			age = drive.Age(e.AgeMS)
		}
		detail := e.Detail
		if e.Path != "" {
			detail += " (" + e.Path + ")"
		}
		rows = append(rows, []string{mark, e.Source, says, age, detail})
	}
	return cli.Table(f.env.Stdout, rows)
}

// explained are the facts above the table, each a name and a value that may be empty.
func explained(x padi.Explanation) [][2]string {
	facts := [][2]string{{"terminal", string(x.ID)}}
	a := x.Agent
	if a == nil {
		return append(facts, [2]string{"agent", "none"})
	}
	state := string(a.State)
	if a.Asks != "" {
		state += ", " + a.Asks
	}
	if a.Message != "" {
		state += ": " + a.Message
	}
	tokens := ""
	if a.ContextTokens > 0 {
		tokens = fmt.Sprint(a.ContextTokens)
	}
	facts = append(facts, [2]string{"agent", a.Kind + " " + a.Version}, [2]string{"state", state}, [2]string{"because", a.Reason},
		[2]string{"session", a.SessionID}, [2]string{"model", a.Model}, [2]string{"context", tokens}, [2]string{"summary", a.Summary})
	if x.Resume != nil {
		facts = append(facts, [2]string{"resume", x.Resume.Command})
	}
	return facts
}
