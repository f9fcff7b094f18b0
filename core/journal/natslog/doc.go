// Package natslog keeps the log of events on a NATS server or cluster with JetStream, which any
// number of processes share. [Log] is a [journal.Log]; that package has the contract. This package
// adds what only shared logs need. It is only a client: it never runs a server.
//
// # Leases and fences
//
// A [Lease] is the right to do something that only one process may do at a time. What its holder
// appends with [Lease.Append] is fenced: after another process has taken the lease and called
// [Lease.Fence], the store rejects what the earlier holder still has in its queue, so the last event
// about a resource is never an old one. A rejected event is dropped and counted, with everything that
// was remembered after it under the same lease. What a stored event tells stays remembered, even if
// the lease is lost. Leases do not depend on what clocks show, only on clocks running about equally
// fast.
//
// # What a cluster may lose
//
// Replicas and the cluster's configuration decide how durable events are. A log that has fewer events
// than the cluster acknowledged, or that somebody replaced, has a new epoch. A process notices that
// when it reads or calls [Log.Bounds], after it lost its connection, and when the numbers of stored
// events do not rise; only results that Store returned earlier may have the old epoch. A cluster that
// loses acknowledged leases may give one to a second process for some seconds; fences hold even then.
//
// An event is stored once: if the response to an attempt was lost, the event is looked up in the log
// before the attempt is repeated, and the store itself recognizes repetitions for a minute.
//
// States and lists are written within a second after their events. If a process was killed in
// between, the log has the events that they do not reflect. A list that no event told is stored before
// the first event about it.
//
// # Other clients
//
// Any client of the cluster can store anything in the log. What is not JSON in one line is read as a
// gap, and entries have no hidden characters. Credentials are rejected if others can read their file.
// The URL, which may contain a password, appears in no error and no log line.
//
// Libraries: nats.go is the client, and the only one that is maintained with the server.
// klauspost/compress compresses texts; the client already needs it, and its S2 is fast enough to
// compress every text.
package natslog
