package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"path"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

type codeArgs struct {
	RepoPath *string       `json:"repoPath"`
	Path     *string       `json:"path"`
	OldPath  *string       `json:"oldPath"`
	Mode     padi.DiffMode `json:"mode"`
}

// codeTools read the repositories of padi's machine.
func codeTools() []tool {
	repo := str("Absolute path of a checkout on the host, or of a directory in it.")
	file := str("Path of a file, relative to the top of the checkout.")
	mode := map[string]any{"enum": []any{padi.Local, padi.Branch}, "description": "local: against the last commit; branch: against where the branch left that of origin. Left out: local."}
	return []tool{
		codeTool("git_getStatus", "Which files of a checkout differ, its branch, and how far that is from its upstream.",
			object([]string{"repoPath"}, map[string]any{"repoPath": repo, "mode": mode}), getStatus),
		codeTool("git_getDiff", "How one file of a checkout differs, as git prints it. A rename needs the old path too.",
			object([]string{"repoPath", "path"}, map[string]any{"repoPath": repo, "path": file, "oldPath": file, "mode": mode}), getDiff),
		codeTool("fs_listAll", "The files of a checkout: those that git has and those that it would take; not those that it ignores.",
			object([]string{"repoPath"}, map[string]any{"repoPath": repo}), listAll),
		codeTool("fs_readFile", fmt.Sprintf("Read a file of a checkout, at most its first %d bytes.", padi.MaxFile),
			object([]string{"repoPath", "path"}, map[string]any{"repoPath": repo, "path": file}), readFile),
	}
}

type codeCall func(ctx context.Context, code padi.CodeTree, a codeArgs) (any, error)

func codeTool(name, description string, input map[string]any, call codeCall) tool {
	return tool{name: name, description: description, input: input, readOnly: true, prepare: func(raw json.RawMessage) (action, error) {
		var args codeArgs
		if err := decode(raw, &args); err != nil {
			return action{}, err
		}
		return action{bound: callBound, run: func(ctx context.Context, ws padi.Workspace) (any, error) {
			code, err := codeOf(ws)
			if err != nil {
				return nil, err
			}
			return call(ctx, code, args)
		}}, args.check(input)
	}}
}

// check refuses what is missing, and a repository that means something only here.
func (a codeArgs) check(input map[string]any) error {
	given := map[string]*string{"repoPath": a.RepoPath, "path": a.Path}
	for _, field := range input["required"].([]string) {
		if given[field] == nil {
			return missing(field)
		}
	}
	if !path.IsAbs(*a.RepoPath) {
		return refuse("relative-repo", map[string]any{"repo": *a.RepoPath}, "repoPath %q is relative: give an absolute path on the host", *a.RepoPath)
	}
	return nil
}

// codeOf is what a workspace, or the client of one, can do with repositories.
func codeOf(ws padi.Workspace) (padi.CodeTree, error) {
	if c, ok := ws.(interface{ Code() (padi.CodeTree, error) }); ok {
		return c.Code()
	}
	if code, ok := ws.(padi.CodeTree); ok {
		return code, nil
	}
	return nil, fmt.Errorf("%w: this padi reads no repositories", kaval.ErrRefused)
}

func getStatus(ctx context.Context, code padi.CodeTree, a codeArgs) (any, error) {
	return code.GitStatus(ctx, padi.GitStatusRequest{Repo: *a.RepoPath, Mode: a.Mode})
}

func getDiff(ctx context.Context, code padi.CodeTree, a codeArgs) (any, error) {
	return code.GitDiff(ctx, padi.GitDiffRequest{Repo: *a.RepoPath, Path: *a.Path, OldPath: deref(a.OldPath), Mode: a.Mode})
}

func listAll(ctx context.Context, code padi.CodeTree, a codeArgs) (any, error) {
	return code.Files(ctx, padi.FilesRequest{Repo: *a.RepoPath})
}

func readFile(ctx context.Context, code padi.CodeTree, a codeArgs) (any, error) {
	return code.File(ctx, padi.PathRequest{Repo: *a.RepoPath, Path: *a.Path})
}
