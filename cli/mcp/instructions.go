package mcp

// instructions teach an agent how to drive another one. They are sent with the handshake.
const instructions = `These tools run terminals on a machine and let you drive what is in them: shells, and coding agents.

The loop
  1. lifecycle_create {intent, cwd} gives {id}. It is a shell: start an agent by typing its command line, as below.
  2. lifecycle_sendInput {id, text} types. It never presses Enter.
  3. wait_outputSettled {id, idleMs: 300, timeoutMs: 15000} lets the program take the text in.
  4. lifecycle_sendInput {id, key: "Enter"} submits, as a call of its own.
  5. wait_outputSettled {id, idleMs: 800, timeoutMs: 60000} waits for the end of the turn.
  6. screen_text {id, tail: 40} reads the answer.
For a coding agent lifecycle_prompt {id, text} does steps 2 to 4 and says what became of the text: taken, busy, staged, blocked or gone. Act on that.

Text and Enter are never one call: a key that arrives together with a paste is dropped, and the prompt stays unsent on the input
line. If a turn does not seem to start, read the screen and look for it there.

Typed by hand, keep prompts to a line or two. Agents fold a longer paste into a placeholder that Enter may not submit. Write long instructions to
a file and send a short line that points to it.

When the timeout of step 3 fires, the target is busy: press Enter all the same, it is taken when the turn ends, and read the screen.

Done or not
  wait_outputSettled sees bytes: it works with every program and cannot tell "finished" from "is asking you".
  wait_agentState knows the agent: after a submit wait for ["working"] first, or the state of the turn before satisfies you at once;
  then for ["awaiting","waiting"]. Add settledMs where the agent starts tasks that outlive its turn.
  Read result: "met" is met; "timeout" means still going, wait again; "gone" means that the terminal has ended, so what you drove is
  dead; "closed" means that the line was lost over a live terminal, wait again.
  Always give timeoutMs, and less than your own client allows a call.

Quiet does not mean right. Read the screen before you go on: check that the reply is there, and answer a question before you send the
next task. A fresh agent may show a dialog first; go through it by reading, with one key at a time. Set an agent's permission mode when
you launch it and check it on the screen.

What an agent says that it did is not what it did: git_getStatus {repoPath} and git_getDiff {repoPath, path} show how its checkout differs,
fs_listAll and fs_readFile what is in it. lifecycle_create with repo and worktree gives each agent a checkout of its own.

To stop a runaway: {key: "Escape"} for an agent's turn, {key: "C-c"} for any program.

The resource surface://collections/terminals lists the ids, and surface://collections/terminals/<id> has the record: intent, directory, git,
agent and state. surface://cells/urgency sorts the agents into those that ask, have finished, work, and just ended a turn.
If an id is not known any more, find the terminal again by the intent you gave it.

Kill exactly the terminals you made, when you are done with them.`
