package paditui

import (
	"fmt"

	"kolu/cli/drive"
	"kolu/daemon/padi"
)

func orDash(s string) string {
	if s = drive.Clean(s); s == "" {
		return drive.Dash
	}
	return s
}

func repoCell(git *padi.Git) string {
	if git == nil || (git.RepoName == "" && git.Branch == "") {
		return drive.Dash
	}
	return orDash(git.RepoName) + "·" + orDash(git.Branch)
}

func prCell(pr padi.PR) string {
	switch pr.Kind {
	case "ok":
		state := ""
		if pr.State != "" && pr.State != "open" {
			state = " " + pr.State
		}
		return fmt.Sprintf("#%d%s %s", pr.Number, state, checksGlyph(pr.Checks))
	case "pending":
		return "pending"
	case "unavailable":
		return "unavailable: " + orDash(pr.Code)
	}
	return drive.Dash
}

func checksGlyph(checks string) string {
	switch checks {
	case "pass":
		return "✓"
	case "fail":
		return "✗"
	}
	return "·"
}

func agentCell(r padi.Record) string {
	if r.Agent == nil || r.State != padi.Active {
		return drive.Dash
	}
	return drive.AgentName(r.Agent.Kind) + " · " + string(r.Agent.State.Bucket())
}

func foregroundCell(r padi.Record) string {
	if r.Foreground == nil || r.State != padi.Active {
		return drive.Dash
	}
	return drive.Base(r.Foreground.Name)
}

func idleCell(r padi.Record) string {
	if r.LastActivityAt == 0 || r.State != padi.Active {
		return drive.Dash
	}
	return drive.Age(r.IdleMS)
}
