// Package journal is the durable log of events. Events are stored before readers see them, keep
// their ids for ever, and can be read again.
//
// # Ids
//
// An entry's id is <epoch>-<seq>. seq is the position in the log: it rises by one and has no
// holes. The epoch is created and stored with the log, so that an event has the same id on
// every node of a cluster and in every run. A log that was replaced, or that came back shorter
// than it was, has another epoch: no id ever names two events. On a cluster a process notices
// that the log was replaced when it reads or asks for [Journal.Bounds], when its connection was
// lost, and when the numbers of stored events do not rise; only what Store returned before may
// have the old epoch. The id an event had on the bus (see core/bus) is only the key by which a
// repeated attempt to store it is recognised.
//
// # Order, loss, visibility
//
// [Journal.Append] queues in the order of its calls, one writer stores in that
// order, and every reader sees that order. Readers see an event after it is as
// durable as [Options.Durability] says, never before. An event is stored once: an
// attempt whose answer was lost is looked up in the log before it is repeated.
//
// Appending never waits. While the store does not answer (disk full, cluster
// without a leader) events queue; beyond [Options.Queue] an event is merged into a
// newer one of the same server, resource and type. That is counted and is the
// only way in which an event may be missing; the last event about every
// resource is always stored. Memory is bounded by the number of resources.
//
// Where retention removed events, or the disk returned them damaged, readers get a
// gap with its bounds. Damaged entries are never served: the store keeps a checksum
// with every record. On a cluster others can store anything: what is not JSON in one
// line is read as a gap too, and entries have no hidden characters.
//
// # Leases
//
// A [Lease] is the right to do something that one process may do at a time. What its
// holder appends with [Lease.Append] is fenced: once another process has the lease and
// has called [Lease.Fence], the store refuses what the earlier holder still has in its
// queue, so the last event about a resource is never an old one. That is counted in
// [Stats]. A cluster that loses leases it acknowledged may give one to a second process
// for some seconds; fences hold then, too.
//
// # What durable means
//
// Always: an event is on the disk (fsync) before anybody sees it. Interval: it is synced within
// 100 ms, so a power cut may lose the last 100 ms. OS: the operating system, or the store's own
// sync (2 min), decides when. A crash of mcptrack alone (kill -9) loses nothing with any of
// them. On a cluster its configuration decides.
//
// # Ownership
//
// This user must own the data directory, and nobody else may write to it. Its files
// are created with mode 0600, and links in place of them are refused.
//
// A Journal owns its writers, the table of leases, the connection and, without a URL,
// the server and the lock on its directory. Close ends them all and waits. Iterators
// end with their context or with the Journal.
//
// Clocks: ages are counted by the clock of the machine that stores. A clock that
// jumps ahead expires events early (read as a gap); order and ids do not depend on
// clocks, and leases only on how fast they run.
//
// # Texts
//
// [Journal.Contents] holds texts of resources beside the log, by digest. They are
// limited in bytes, best effort, and never part of an event.
//
// Libraries: nats-server is the store, in this process (one log, retention,
// deduplication and key-value buckets that are the same code on one machine and on a
// cluster); nats.go is its client. Nothing else imports them. klauspost/compress, which
// nats-server uses too, compresses texts. golang.org/x/sys locks the directory on
// Windows.
package journal
