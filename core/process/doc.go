// Package process runs one child process together with all its descendants. It starts the child,
// reads its stdout tolerantly, keeps the newest lines of stderr, and stops the child in an orderly
// way without leaving processes behind.
//
// # Why not os/exec alone
//
// MCP clients start servers through wrappers (npx, uvx, sh -c). Killing only the wrapper leaves the
// server running. Waiting for EOF on the pipes misses the death of the process while a grandchild
// holds them open. A banner on stdout breaks the session. In this package, the child leads its own
// process group (Unix), is reaped as soon as it exits, and Stop terminates its whole group.
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
// # Descendants outside the group
//
// Every child carries a mark, the environment variable [NonceKey], which identifies the Process and
// the tracker that owns it. On Linux, Stop uses the mark to find descendants that left the group
// (setsid, daemons), and [Sweep] uses it to remove processes that a killed tracker left behind.
// Neither can find a process that has left its group and has cleared its environment, or whose
// environment is not readable. With [Subreaper], orphans become children of this process. Then
// [ReapOrphans] must run, and Stop searches for marked descendants only if this process has a child
// left.
//
// # Other systems
//
// Other Unix systems have process groups, but marks are not searched for and [Sweep] does nothing.
// Windows has neither such groups nor SIGTERM: Stop closes stdin and then kills the direct child;
// grandchildren that do not exit when their stdin is closed survive.
//
// golang.org/x/sys provides the pidfd, waitid and prctl calls that package syscall lacks.
package process
