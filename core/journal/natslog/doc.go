// Package natslog keeps the log of events on a NATS server or cluster with JetStream, which any
// number of processes share. [Log] is a [journal.Log]: that package has the contract. This one
// adds what only shared logs need, and is only a client: it never runs a server.
//
// # Leases and fences
//
// A [Lease] is the right to do something that one process may do at a time. What its holder
// appends with [Lease.Append] is fenced: once another process has the lease and has called
// [Lease.Fence], the store refuses what the earlier holder still has in its queue, so the last
// event about a resource is never an old one. What is refused is dropped, with what was
// remembered after it under the same lease, and counted. What an event that was stored says
// stays remembered, whatever becomes of the lease. Leases depend on no clock, only on clocks
// that run about equally fast.
//
// # What a cluster may lose
//
// Replicas and the cluster's configuration decide how durable events are. A cluster that comes
// back with fewer events than it acknowledged, or whose log somebody replaced, has a new epoch. A
// process notices that when it reads or asks for [Log.Bounds], when its connection was lost, and
// when the numbers of stored events do not rise; only what Store returned before may have the
// old epoch. A cluster that loses leases that it acknowledged may give one to a second process
// for some seconds; fences hold then, too.
//
// An event is stored once: an attempt whose answer was lost is looked up in the log before it is
// repeated, and the store itself recognises repetitions for a minute.
//
// States and lists are written within a second after the events that they come from. Events that
// they do not reflect, since a process was killed in between, are found in the log. A list that no
// event told is stored before the first event about it.
//
// # Other clients
//
// Any client of the cluster can store anything in the log. What is not JSON in one line is read
// as a gap, and entries have no hidden characters. Credentials are refused if others can read
// their file, and the URL, which may hold a password, appears in no error and no log line.
//
// Libraries: nats.go is the client, and the only one that is maintained with the server.
// klauspost/compress compresses texts; the client needs it already, and its S2 is fast enough to
// compress every text.
package natslog
