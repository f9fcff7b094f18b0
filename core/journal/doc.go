// Package journal is the durable log of events: what leaves mcptrack over the
// network was stored first, has one id for ever, and can be read again.
//
// # Ids
//
// An entry's id is <epoch>-<seq>. seq is the position in the log: it rises by
// one and has no holes. The epoch is made with the log and kept in it, so that
// every node of a cluster and every run gives an event the same id. A log that
// was made anew, or that came back shorter than it was, has another epoch: no id
// ever names two events. On a cluster a process sees that another one made the log
// anew when it reads or asks for [Journal.Bounds], when its connection was lost, and
// when the numbers that it gets do not rise; only what Store returns before that may
// have the old epoch. The id an event had on the bus (see core/bus) is only the key
// by which a repeated attempt to store it is recognised.
//
// # Order, loss, visibility
//
// [Journal.Append] queues in the order of its calls, one writer stores in that
// order, and every reader sees that order. Readers see an event after it is as
// durable as [Options.Durability] says, never before. An event is stored once: an
// attempt whose answer was lost is looked up in the log before it is repeated.
//
// Appending never waits. While the store does not answer (disk full, cluster
// without a leader) events queue; beyond [Options.Queue] an event gives way to a
// newer one of the same server, resource and type. That is counted and is the
// only way in which an event may be missing; the last event about every
// resource is always kept. Memory is bounded by the number of resources.
//
// What retention removed, and what the disk gave back damaged, readers are told
// as a gap with its bounds. Damaged entries are never served: the store keeps a
// checksum with every record. On a cluster others can store what they like: what is
// not JSON in one line is told as a gap too, and nothing in an entry is hidden.
//
// # What durable means
//
// Always: an event is on the disk (fsync) before anybody sees it. Interval: after
// 100 ms at the latest; a power cut may cost the last 100 ms. OS: when the
// operating system or the store's own sync (2 min) gets to it. A crash of
// mcptrack alone (kill -9) loses nothing with any of them. On a cluster its
// configuration decides.
//
// # Ownership
//
// A Journal owns its writer, the keeper of states, the table of leases, the
// connection and, without a URL, the server and the lock on its directory.
// Close ends them all and waits. Iterators belong to who ranges over them and
// end with their context or with the Journal.
//
// Clocks: ages are counted by the clock of the machine that stores. A clock that
// jumps ahead ages events early (told as a gap); order and ids do not depend on
// clocks, and leases only on how fast they run.
//
// Libraries: nats-server is the store, in this process (one log, retention,
// deduplication and cursors that are the same code on one machine and on a
// cluster); nats.go is its client. Nothing else imports them. golang.org/x/sys
// locks the directory on Windows.
package journal
