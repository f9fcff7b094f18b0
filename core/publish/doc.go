// Package publish follows MCP servers and publishes what happens as one durable
// log: tracker → journal → readers.
//
// # Order and loss
//
// The log has the order of the tracker's events, and readers see an event after it was stored,
// never before. Events wait in memory while the store is unavailable; see package journal for
// the only case in which one is merged into a newer one of the same resource. Should storing
// lag so far behind that the tracker cuts it off, the log gets a gap event followed by the last
// event of every resource that changed.
//
// # What is remembered
//
// The digest of every followed resource, the keys and digests of all lists, and where to resume
// the subscriptions to events of servers (MCP Events), are stored in the journal within some
// seconds and before the end, even if no event was published. Contents and lists that changed
// while no process was running are published by the next one, with cause resync. Changes that
// were announced but not stored when a process was killed may be published again.
//
// # Sharing
//
// With [Options.Shared] all processes on one NATS cluster divide the servers of their configs:
// each server is followed by the process that holds its lease. When a process dies, the others
// take its servers over within about [journal.DefaultLease]; one that joins gets its share
// within a minute, a few servers at a time. Events that a disconnected or suspended process
// still has to store about a server that another process took over are dropped: the other
// process has compared the server with the log. After a takeover a resource may have one more
// event within two seconds than it would have from one process.
//
// # The end
//
// When the context of [Publisher.Run] ends, the sources end, the tracker publishes outstanding
// changes, everything is stored, and only then do the readers end and the leases are released.
// The caller closes the journal after Run.
//
// This package knows nothing of HTTP: what shows the log are readers that the
// caller brings.
//
// Library: golang.org/x/sync/errgroup runs the parts until the first failure.
package publish
