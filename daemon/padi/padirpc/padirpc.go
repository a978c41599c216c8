// Package padirpc is the wire of padi: [Handler] serves any padi.Workspace over HTTP, [Client] is a padi.Workspace that speaks to one.
// cli/padicmd serves with it, cli/client calls with it.
//
// # The wire
//
// HTTP/1.1 with JSON, over whatever a daemon.Dialer reaches; times are milliseconds.
//
//	GET    /v1/terminals                {"terminals":[Record]}
//	POST   /v1/terminals                CreateRequest → Created
//	GET    /v1/terminals/{id}           Record
//	DELETE /v1/terminals/{id}           Record
//	POST   /v1/terminals/{id}/input     Input (data is base64) → {}
//	POST   /v1/terminals/{id}/resize    Size → {}
//	GET    /v1/terminals/{id}/screen    ?extent&lines&trim&ansi → Screen
//	GET    /v1/terminals/{id}/history   ?before&max&epoch → HistoryPage
//	GET    /v1/terminals/{id}/wait      ?until=a,b&idleMs&match&after&timeoutMs&settledMs&tail → WaitResult
//	GET    /v1/terminals/{id}/explain   Explanation
//	POST   /v1/terminals/{id}/prompt    PromptRequest (data is base64) → Receipt
//	GET    /v1/agents/recent            {"agents":[RecentAgent]}
//	GET    /v1/watch                    Events, one a line, until either side goes
//	GET    /v1/kaval                    KavalStatus
//	POST   /v1/kaval/upgrade            {} → KavalStatus; kaval is padi's own build then, with every terminal as it was
//	POST   /v1/kaval/restart            {} → KavalStatus; every terminal is parked and another kaval runs
//	GET    /v1/session                  Session
//	POST   /v1/session/restore          RestoreRequest → Restored
//	POST   /v1/session/forget           {} → Forgotten
//	GET    /v1/backups                  {"backups":[Backup]}, the newest first
//	POST   /v1/backups/recall           {"name"} → Recalled
//	POST   /v1/terminals/{id}/sleep     {} → Record
//	POST   /v1/terminals/{id}/wake      WakeRequest → Restart
//	POST   /v1/terminals/{id}/intent    RenameRequest → Record
//	GET    /v1/repo/files               ?repo&ignored → FileList; repo is the absolute path of a directory in a checkout
//	GET    /v1/repo/directory           ?repo&path → FileList
//	GET    /v1/repo/file                ?repo&path → File
//	GET    /v1/repo/status              ?repo&mode=local|branch → GitStatus
//	GET    /v1/repo/diff                ?repo&path&oldPath&mode → GitDiff
//	GET    /v1/worktrees                ?repo → {"worktrees":[WorktreeInfo]}
//	POST   /v1/worktrees/remove         RemoveWorktree → RemovedWorktree
//	GET    /v1/record                   ?terminal&since&limit → Recorded
//	POST   /v1/record                   {"text":bool} → {}; whether the text of what is sent is kept
//	POST   /v1/forward                  ?port; 101, then the bytes of a connection to that port of the loopback
//
// An error is application/problem+json: {"code","detail","status"}, and "landed" (a Created) when a create failed half way.
// Kolu-Face, Kolu-Terminal and Kolu-Host say who asks, for the record; a request without them goes under its User-Agent.
// POST and DELETE take an Idempotency-Key: with the same key the answer of the first time comes again and nothing is done twice. The client
// sends one always, and sends once more what broke before its answer.
package padirpc

import (
	"errors"
	"net/http"

	"kolu/daemon/padi"
)

// problem is an error on the wire.
type problem struct {
	Code   string        `json:"code"`
	Detail string        `json:"detail"`
	Status int           `json:"status"`
	Landed *padi.Created `json:"landed,omitempty"`
}

const problemType = "application/problem+json"

var statuses = map[string]int{
	"invalid": http.StatusBadRequest, "no-terminal": http.StatusNotFound, "no-parent": http.StatusNotFound,
	"gone": http.StatusGone, "exists": http.StatusConflict, "refused": http.StatusConflict,
	"stalled": http.StatusConflict, "survivors": http.StatusConflict, "limit": http.StatusTooManyRequests,
	"spawn-failed": http.StatusUnprocessableEntity, "worktree-failed": http.StatusUnprocessableEntity,
	"port-closed": http.StatusBadGateway, "no-forward": http.StatusNotImplemented,
	"kaval-down": http.StatusServiceUnavailable, "closing": http.StatusServiceUnavailable,
	"upgrade-failed": http.StatusConflict, "no-backup": http.StatusNotFound,
	"no-repo": http.StatusNotFound, "file-gone": http.StatusNotFound, "no-worktree": http.StatusNotFound,
	"outside": http.StatusForbidden, "no-git": http.StatusNotImplemented,
	"git-failed": http.StatusUnprocessableEntity, "no-base": http.StatusUnprocessableEntity,
	"worktree-dirty": http.StatusConflict, "worktree-locked": http.StatusConflict,
	"worktree-busy": http.StatusConflict, "worktree-main": http.StatusConflict,
}

// toProblem is the wire form of an error. What was done half way must not be done again by a repetition of the request, so its
// status is none of those (500 and up) that are forgotten.
func toProblem(err error) problem {
	p := problem{Code: padi.Code(err), Detail: err.Error(), Status: http.StatusInternalServerError}
	if s, ok := statuses[p.Code]; ok {
		p.Status = s
	}
	if partial, ok := errors.AsType[*padi.PartialError](err); ok {
		p.Landed, p.Detail = &partial.Landed, partial.Err.Error()
		p.Status = min(p.Status, http.StatusUnprocessableEntity)
	}
	return p
}

// err is the error that a problem came from.
func (p problem) err() error {
	err := padi.FromCode(p.Code, p.Detail)
	if p.Landed != nil {
		return &padi.PartialError{Landed: *p.Landed, Err: err}
	}
	return err
}
