# fish of a kolu terminal; the user's own configuration has been read before this.
set -e KOLU_FISH_INIT

# The tools of this terminal in front of PATH, once, and no empty entry (it would mean the current directory).
if test -n "$KOLU_TERMINAL_TOOLS_PATH"
    set -l rest
    for dir in $PATH
        if test -n "$dir" -a "$dir" != "$KOLU_TERMINAL_TOOLS_PATH"
            set -a rest $dir
        end
    end
    set -gx PATH $KOLU_TERMINAL_TOOLS_PATH $rest
end

# The title is fish's own work.
function __kolu_prompt --on-event fish_prompt
    set -l before $status
    printf '\e]133;A\a\e]7;file://%s%s\a' $hostname (string escape --style=url -- $PWD)
    return $before
end

function __kolu_preexec --on-event fish_preexec
    # A line that begins with a blank stays out of the history and tells nothing.
    if string match -qr '^\s' -- $argv[1]
        return
    end
    set -l line (string replace -a '\\' '\\\\' -- $argv[1] | string replace -a ';' '\\x3b' | string replace -a \t '\\x09' \
        | string replace -a \e '\\x1b' | string replace -a \a '\\x07' | string join '\\x0a')
    printf '\e]633;E;%s\a' (string replace -ar '[[:cntrl:]]' ' ' -- $line)
end
