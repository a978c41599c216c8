package forge

import (
	"context"
	"errors"
	"fmt"

	"kolu/daemon/padi"
)

const (
	perPage = 100
	// maxPages bounds how many checks are read.
	maxPages = 5
)

type (
	checkRuns struct {
		Total int        `json:"total_count"`
		Runs  []checkRun `json:"check_runs"`
	}
	checkRun struct {
		Name       string `json:"name"`
		Status     string `json:"status"`
		Conclusion string `json:"conclusion"`
	}
	combined struct {
		Statuses []status `json:"statuses"`
	}
	status struct {
		Context string `json:"context"`
		State   string `json:"state"`
	}
)

// checks are those of a commit: check runs and the older statuses. A token that may not see one kind sees the other.
func (g *GitHub) checks(ctx context.Context, name, sha string) ([]padi.CheckRun, error) {
	if sha == "" {
		return nil, nil
	}
	var runs []padi.CheckRun
	for page := 1; page <= maxPages; page++ {
		got, err := get[checkRuns](ctx, g, fmt.Sprintf("/repos/%s/commits/%s/check-runs?filter=latest&per_page=%d&page=%d", name, sha, perPage, page))
		if hidden(err) {
			break
		}
		if err != nil {
			return nil, err
		}
		for _, r := range got.Runs {
			runs = append(runs, padi.CheckRun{Name: r.Name, Outcome: runOutcome(r)})
		}
		if len(got.Runs) < perPage {
			break
		}
	}
	old, err := get[combined](ctx, g, fmt.Sprintf("/repos/%s/commits/%s/status?per_page=%d", name, sha, perPage))
	if err != nil && !hidden(err) {
		return nil, err
	}
	for _, s := range old.Statuses {
		runs = append(runs, padi.CheckRun{Name: s.Context, Outcome: stateOutcome(s.State)})
	}
	return runs, nil
}

// hidden reports an answer that the token may not see.
func hidden(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.code == "forbidden"
}

// runOutcome is that of a check run; a conclusion that is not known yet to us is no failure.
func runOutcome(r checkRun) string {
	if r.Status != "completed" {
		return "pending"
	}
	switch r.Conclusion {
	case "failure", "cancelled", "timed_out", "startup_failure", "action_required", "stale":
		return "fail"
	}
	return "pass"
}

func stateOutcome(state string) string {
	switch state {
	case "failure", "error":
		return "fail"
	case "pending", "expected":
		return "pending"
	}
	return "pass"
}

// fold is one outcome for all: fail before pending before pass; empty where there is none.
func fold(runs []padi.CheckRun) string {
	all := ""
	for _, r := range runs {
		switch {
		case r.Outcome == "fail":
			return "fail"
		case r.Outcome == "pending", all == "":
			all = r.Outcome
		}
	}
	return all
}
