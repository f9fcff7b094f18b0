// Package natslog stores the log of events on a NATS server or cluster with JetStream, which any
// number of processes share. [Log] is a [journal.Log]; package journal describes the contract. This
// documentation describes only what is specific to shared logs. The package is purely a client: it
// never runs a server.
//
// # Leases and fences
//
// A [Lease] is the exclusive right to perform a task that only one process may perform at a time. It is
// a key of a key-value bucket, which the store removes unless its holder renews it in time. The clocks of
// the nodes should agree within a second: a node whose clock is ahead ends leases early when it becomes
// the leader.
//
// Events that the holder appends with [Lease.Append] are fenced: [Lease.Fence] stores an event on the
// subject of the lease, and the store accepts the events of a holder only while its fence is the last
// message on that subject (Nats-Expected-Last-Subject-Sequence). After another process has acquired
// the lease and called Fence, the store rejects all events that are still in the queue of the
// previous holder, so the last event about a resource is never an outdated one. A rejected event is
// dropped and counted, and so are the states that were remembered after it under the same lease. The
// state that a stored event reports is kept even if the lease is lost.
//
// # What a cluster may lose
//
// The number of replicas and the configuration of the cluster determine how durable events are. If
// the log contains fewer events than the cluster has acknowledged, or was replaced, it gets a new
// epoch. A process detects this when it begins to read or calls [Log.Bounds], after it has lost its
// connection, and when the numbers of stored events do not increase. A cluster that loses acknowledged leases, or whose bucket was deleted,
// may grant a lease to a second process for some seconds; fences work even then.
//
// An event is stored exactly once: if the response to an attempt was lost, the writer looks the event
// up in the log before it repeats the attempt, and the store itself rejects duplicates for a minute.
//
// States and lists are written within a second after the events that report them. If a process was
// killed in between, the stored states are updated from the events when they are read. A list that no
// event reported is stored before the first event that changes it. A list is one compressed message: if
// that exceeds the server's limit (10,000 long and unlike URIs may), only its changes are stored.
//
// # Other clients
//
// Any client of the cluster can store anything in the log. A message that is not JSON in one line is
// reported as a gap, and hidden characters in entries are escaped. A credentials file is rejected if
// other users can read it. The URL, which may contain a password, never appears in an error or in a
// log line.
//
// # Libraries
//
// nats.go is the client library, and the only one that is maintained together with the server. It has
// no atomic batches, without which a lost connection could leave a hole in the order of events, so
// publisher.go sends them. NATS has them with message ids since 2.12.1, which is therefore the oldest
// version that works; keys that expire are older.
// klauspost/compress compresses texts. The client library depends on it anyway, and its S2 format is
// fast enough to compress every text.
package natslog
