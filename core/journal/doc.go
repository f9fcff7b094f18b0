// Package journal is the log of events: the interface [Log] and its contract. There are three
// implementations. [Memory], in this package, ends with the process. sqlitelog keeps the log in one
// file, which one process writes and others may read. natslog keeps it on a NATS cluster, which any
// number of processes share. Readers of events use a Log and do not know which one it is;
// journaltest.Run tests this contract, and all three pass.
//
// # Ids
//
// An entry's id is <epoch>-<seq>. seq is the position in the log: it rises by one, without holes. The
// epoch is created with the log and stored with it, so an event has the same id for every reader and
// in every run. A log that was replaced, or that came back shorter than it was, has another epoch: no
// id ever names two events.
//
// # Order, loss, visibility
//
// Events are stored in the order in which [Recorder.Append] was called, and every reader sees that
// order. Readers see an event after it is as durable as [Durability] says, never before. An event is
// stored once.
//
// Appending never waits. While the store does not respond (disk full, cluster without a leader),
// events queue. Beyond a limit, an event is merged into a newer one of the same server, resource and
// type, and counted. This is the only way in which an event may be missing; the last event about every
// resource is always stored. Memory is bounded by the number of resources.
//
// Where events are missing because retention removed them, the disk returned them damaged, or the
// reader of a [Memory] was too slow, readers get an entry with Gap and its bounds in their place.
// No reader can overlook it, or has to find out by itself that it fell behind. Damaged entries are
// never served.
//
// # What is remembered
//
// The step that stores an event also stores the state of the resource, or of the list, that the event
// tells ([Known], [KnownLists]). Remember and RememberList are for states without an event; they have
// their place in the same order.
//
// # What durable means
//
// [Always]: an event is on the disk before anybody sees it. [Interval]: it is synced within 100 ms, so
// a power cut may lose the last 100 ms. [OS]: the operating system decides when. With all of them, a
// crash of mcptrack alone (kill -9) loses nothing. A cluster's own configuration decides how durable
// its log is.
//
// # Ownership
//
// A Log owns its goroutines, connections and files; Close ends them and waits. Iterators end with
// their context or with the Log.
//
// Clocks: ages are measured by the clock of the machine that stores. A clock that jumps ahead expires
// events early, which readers see as a gap. Order and ids do not depend on clocks.
package journal
