// Package shell says how a user's shell is started in a terminal so that it tells what it does, without the user seeing anything
// of it. For the workspace. It starts nothing itself: a [Plan] is arguments, environment and files for a spawn.
//
// The files replay the user's own start-up files first, put the directory in $KOLU_TERMINAL_TOOLS_PATH back in front of PATH
// wherever they moved it, and then add hooks:
//
//	OSC 133;A         a prompt is about to be shown
//	OSC 7             the directory, at each prompt
//	OSC 2             the title: the directory at a prompt, the command while one runs
//	OSC 633;E;LINE    before a command; a line that the user keeps out of the history is not told
//
// In LINE a backslash is written \\ , and ";" and control characters as \xHH.
package shell

import (
	_ "embed"
	"path"

	"kolu/daemon/kaval"
)

//go:embed bashrc
var bashRC string

//go:embed zshenv
var zshEnv string

//go:embed zprofile
var zshProfile string

//go:embed zshrc
var zshRC string

//go:embed zlogin
var zshLogin string

//go:embed init.fish
var fishInit string

// Plan is what a spawn needs. "{dir}" in Argv and Env stands for the private directory that Files are written to.
type Plan struct {
	Argv  []string
	Env   map[string]string
	Files []kaval.InitFile
	// Ready is an RE2 expression for the output after which the shell's line editor reads what is typed. Before that a long line
	// would be cut by the terminal's line discipline. Empty where nothing tells.
	Ready string
}

// A line editor that has taken the terminal over asks for pastes to be marked.
const (
	pasteOn = `\x1b\[\?2004h`
	// bash before 5.1 does not, nor one that was told not to; there our last word before the prompt has to do.
	orPromptEnd = pasteOn + `|\x1b\]133;B\x07`
)

// For gives the plan for a shell by its path. One that is not known is started plainly.
func For(shell string) Plan {
	switch path.Base(shell) {
	case "bash":
		return Plan{
			Argv:  []string{shell, "--rcfile", "{dir}/bashrc"},
			Files: []kaval.InitFile{{Name: "bashrc", Content: bashRC}},
			Ready: orPromptEnd,
		}
	case "zsh":
		return Plan{
			Argv: []string{shell, "-l"},
			Env:  map[string]string{"ZDOTDIR": "{dir}"},
			Files: []kaval.InitFile{
				{Name: ".zshenv", Content: zshEnv}, {Name: ".zprofile", Content: zshProfile},
				{Name: ".zshrc", Content: zshRC}, {Name: ".zlogin", Content: zshLogin},
			},
			Ready: pasteOn,
		}
	case "fish":
		// The path goes by the environment, since a directory may hold what fish would read as syntax.
		return Plan{
			Argv:  []string{shell, "-l", "--init-command", "source $KOLU_FISH_INIT"},
			Env:   map[string]string{"KOLU_FISH_INIT": "{dir}/init.fish"},
			Files: []kaval.InitFile{{Name: "init.fish", Content: fishInit}},
			Ready: pasteOn,
		}
	}
	return Plan{Argv: []string{shell}}
}
