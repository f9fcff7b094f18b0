// Package journal defines the log of events: the interface [Log] and its contract. There are three
// implementations. [Memory], in this package, is lost when the process exits. Package sqlitelog
// stores the log in one file, which one process writes and other processes may read. Package natslog
// stores it on a NATS cluster, which any number of processes share. Code that reads events uses a
// Log without depending on the implementation; journaltest.Run tests that all three fulfil the
// contract.
//
// # Ids
//
// The id of an entry is <epoch>-<seq>. seq is the position in the log: it increases by one for each
// event, without holes. The epoch is created with the log and stored with it, so an event has the
// same id for every reader and after every restart. If a log is replaced, or turns out to be
// truncated, it gets a new epoch, so two events never share an id.
//
// # Order, loss and visibility
//
// Events are stored in the order of the calls to [Recorder.Append], and every reader receives them
// in that order. Readers never see an event before it is as durable as [Durability] requires. An
// event is stored exactly once.
//
// Appending never waits. While the store does not respond (the disk is full, or the cluster has no
// leader), events are queued. When the queue exceeds its limit, an event is merged into a newer one
// of the same server, resource and type, and the merge is counted. An event is dropped, and counted,
// only if it is too large to store, if another process has taken over its server, or if it is still
// queued when Close gives up. Otherwise the last event about every resource is stored. Memory use is
// limited by the number of resources.
//
// If events are missing because retention removed them, because the disk returned damaged data, or
// because the reader of a [Memory] was too slow, readers receive an entry with Gap set, which
// specifies the missing range. A reader is therefore always told that it fell behind and never has
// to detect that itself. What a store finds to be damaged is never delivered.
//
// # Stored states
//
// The step that stores an event also stores the state of the resource or list that the event
// reports ([Known], [KnownLists]). Remember and RememberList store states that no event reports;
// these calls and the events have one common order.
//
// # Durability
//
// With [Always], an event is synced to disk before any reader sees it. With [Interval], it is synced
// within 100 ms, so a power failure may lose the events of the last 100 ms. If only mcptrack crashes
// (kill -9), no stored event is lost. For a log on a cluster, the configuration of the cluster
// determines the durability.
//
// # Ownership
//
// A Log owns its goroutines, connections and files; Close releases them and waits. Iterators end
// when their context ends or the Log is closed.
//
// # Clocks
//
// The age of an event is measured with the clock of the machine that stores it. If that clock jumps
// ahead, events expire early, which readers see as a gap. If a clock is set back, events of a file have the
// time of the one before until the clock is past it. Order and ids do not depend on clocks.
package journal
