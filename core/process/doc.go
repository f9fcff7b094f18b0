// Package process runs one child process together with its descendants. It starts the child,
// reads its stdout tolerantly, keeps the newest lines of stderr, and stops the child in an orderly
// way without leaving processes behind.
//
// # Why not os/exec alone
//
// MCP clients start servers through wrappers (npx, uvx, sh -c). Killing only the wrapper leaves the
// server running. Waiting for EOF on the pipes misses the death of the process while a grandchild
// holds them open. A banner on stdout breaks the session. In this package, the child leads its own
// process group (Unix) or has its own job object (Windows), is reaped as soon as it exits, and Stop
// terminates the whole group or job.
//
// # Ownership
//
// The caller of [Start] must call [Process.Stop], even after the child has exited: Stop closes the
// pipes and stops the two goroutines of a Process (one reaps the child, one drains stderr). Nothing
// else closes [Process.Stdout]; the user of [Process.Stdin] may close it earlier. Only the reaping
// goroutine closes the channel that Done returns.
//
// # Order and loss
//
// Stdout delivers accepted lines in order and drops none before Stop is called. Lines that cannot
// be JSON-RPC are dropped, counted and logged. Stop discards unread lines: to receive the last
// output of a dead child, read until io.EOF before calling Stop. Stderr keeps only the newest lines
// and never blocks the child.
//
// # What leaves the group
//
// A descendant can leave the group (setsid, daemons). On Linux, Stop finds it by a mark: every child has one in its
// environment, which its descendants inherit, so a process that has cleared its environment is not found. What a
// tracker that is killed has started ends when its stdin ends; on Linux, [Sweep] ends the rest at the start of the
// next tracker. On Windows, the system kills both. Other Unix systems have nothing of the kind.
//
// golang.org/x/sys provides the pidfd, waitid and job object calls that package syscall lacks.
package process
