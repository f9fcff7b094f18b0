// Package process runs one child process and everything it forks: start, tolerant stdout, bounded
// stderr, an orderly stop, and no leftovers.
//
// # Why not os/exec alone
//
// MCP clients start servers through wrappers (npx, uvx, sh -c). Killing the wrapper leaves the
// server behind; waiting for the end of the pipes misses the process's death while a grandchild
// holds them; a banner on stdout ends the session. Here, the child leads its own process group
// (Unix), is reaped the moment it dies, and Stop empties its group.
//
// # Ownership
//
// The caller of [Start] must call [Process.Stop], even after the child has exited: Stop closes the
// pipes and ends the two goroutines of a Process (one reaps the child, one drains stderr). Nothing
// else closes [Process.Stdout]; the user of [Process.Stdin] may close it earlier. Only the reaping
// goroutine closes Done.
//
// # Order and loss
//
// Stdout delivers accepted lines in order and drops none before Stop. Lines that cannot be JSON-RPC
// are dropped, counted and logged. Stop discards unread lines: to get the last output of a dead
// child, read to io.EOF first. Stderr keeps only the newest lines and never blocks the child.
//
// # Descendants outside the group
//
// Every child carries a mark, the environment variable [NonceKey], which names the tracker that
// owns it and its Process. On Linux, Stop uses the mark to find descendants that left the group
// (setsid, daemons), and [Sweep] uses it to remove what a killed tracker left behind. Neither finds
// a process that clears its environment and leaves its group, or whose environment cannot be read.
// With [Subreaper], orphans become our children; then [ReapOrphans] must run, and Stop searches
// only if this process has a child left.
//
// # Other systems
//
// Other Unix systems have the group, but no search by mark and no sweep. Windows has neither group
// nor SIGTERM: Stop closes stdin and then kills the direct child; grandchildren that hold no stdin
// survive.
//
// golang.org/x/sys provides what package syscall lacks: pidfd, waitid and prctl.
package process
