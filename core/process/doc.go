// Package process runs one child process and everything it forks: start,
// tolerant stdout, bounded stderr, an orderly stop, and no leftovers.
//
// # Why not os/exec alone
//
// MCP clients start servers through wrappers (npx, uvx, sh -c). Killing the wrapper leaves the
// server behind; waiting for the end of the pipes instead of the process misses its death while
// a grandchild holds them; a banner on stdout ends the session. Here the child leads its own
// process group (Unix), is reaped the moment it dies, and its group is emptied by Stop.
//
// # Ownership
//
// The caller of [Start] must call [Process.Stop], even after the child has exited: Stop closes
// the pipes and ends the two goroutines of a Process (the one that reaps the child, the one
// that drains stderr). Nothing else closes [Process.Stdout]; [Process.Stdin] may be closed
// earlier by its user. Done is closed by the reaping goroutine only.
//
// # Order and loss
//
// Stdout delivers accepted lines in order and drops none of them before Stop;
// lines that cannot be JSON-RPC are dropped, counted and logged. Stop discards what
// has not been read yet: a reader that needs the last output of a dead child reads to
// io.EOF first. Stderr keeps the newest lines only and never blocks the child.
//
// # Descendants outside the group
//
// Every child is marked with the environment variable [NonceKey], which names the tracker that
// owns it and the one Process it belongs to. On Linux Stop uses the mark to find descendants
// that left the group (setsid, daemons), and [Sweep] uses it to remove what a killed tracker
// left behind. A process that clears its environment and leaves its group, or whose environment
// cannot be read, is not found by either. With [Subreaper], orphans become our children;
// [ReapOrphans] then has to run, and Stop searches only if this process has a child left.
//
// # Other systems
//
// On other Unix systems there is the group but no search by mark and no sweep.
// On Windows there is neither group nor SIGTERM: Stop closes stdin and then
// kills the direct child, and grandchildren that hold no stdin survive.
//
// golang.org/x/sys is used for what package syscall has frozen out: pidfd,
// waitid and prctl.
package process
