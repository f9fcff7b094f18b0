// Package agent reports changes to agents that read the output of a process: Claude Code's
// Monitor tool and plugin monitors, hooks, shell loops. Each line wakes a model and costs it
// tokens, so lines are few, short and in plain words:
//
//	docs: file:///guide.md updated (12 lines), 2 more
//
// # Lines
//
// There is at most one line a second, of at most [MaxLine] bytes, with the changes since the
// previous line. Changes that do not fit are counted. Names and URIs that servers chose reach a
// model's context and a terminal: they are shortened, and a name with characters that do not
// occur in URIs is quoted, with unusual characters escaped. Errors and contents of servers are
// never shown. An update that did not change the content is not reported. A server that cannot
// be reached is reported after [DownAfter].
//
// # Order and loss
//
// A [Watch] reads a log of events; the log, if it is stored, knows the states of resources and lists, so that
// the next process publishes what changed in between. A [Reader] stores the id of the last reported event. It
// is updated after a line was written: if the process is killed, no change is lost, but one may be reported
// twice. A resource that changes and changes back between two runs has not changed.
//
// Processes that report the same log simultaneously have one Reader each. A new one begins where another one
// is, so that each reports everything. The first process to start after they ended takes the first Reader, and
// drops the others.
//
// # Ownership
//
// [Watch.Follow] owns its goroutines and waits for them. The caller closes the Reader.
//
// Library: gofrs/flock (BSD) locks files on all systems; the system unlocks them however a
// process ends.
package agent
