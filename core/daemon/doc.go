// Package daemon runs one set of MCP servers for all clients of a user.
//
// A client connects through a socket (see core/daemon/ipc) and says in which folder it works and
// which config it uses. Its servers are added to those of the other clients: one tracker follows
// them all, stores their events in one log, and connects each of them while a client needs it.
//
// # Sharing
//
// Two clients share a server, and so its process, if everything that determines it is equal: its entry in the
// config, what it inherits from the client's environment, the programs that it finds in PATH, its login, and the
// client's folder, unless the entry has "shared": "machine". With "shared": false each client has its own.
// What is followed on a shared server is the union of what its clients follow. The tracker knows a server as
// ID~DIGITS; clients see the ID of their config. Whom a shared server asks, [gateway.Callers] says; a server
// that asks while requests of several clients are in progress has a process for each new client from then on
// ([OneEach]).
//
// # Groups
//
// Clients with the same config, folder, environment and choice of servers have one group: a gateway
// (core/gateway) over the tracker. It outlives its clients, so that the
// next client finds the lists of its servers, until maxIdleGroups later groups have been left. Groups that differ only
// in the choice of servers follow their config file together: a change is read and merged once.
//
// A group serves only what the lock file beside its config approves (see core/lock/guard). What differs is
// published as lock.drift, once for each lock, because another group with another lock may share the server.
//
// [Daemon.MCP] serves MCP over HTTP: each request counts as a client while it lasts, and its group is kept for
// httpIdle after the last, because it may have sessions.
//
// A server starts when a client uses it, or connects while nobody knows the server's lists. It stays connected
// as long as this client, and for [config.Server.Idle] after that. Then it sleeps.
//
// # Promises
//
//   - A client receives only what its own config offers.
//   - A client that had another connection before hears which lists differ from those that it saw last, also after
//     the death of a daemon: if what is known of them differs, its servers are asked first.
//   - A slow, hanging or failing server or client delays nobody else.
//   - When the daemon stops or hands over, it reads no further requests and answers those that are
//     in flight, for at most Options.Drain.
//   - Ownership: Run owns every goroutine, group and connection. After Run, the caller closes the log,
//     releases the lock of the socket, and calls Release.
package daemon
