// Package core is a map of the packages. It has no code.
//
// # For embedders
//
// These packages are the public API. Programs may depend on them:
//
//	config     a config file or several → an immutable set of desired servers, or problems with positions
//	tracker    keeps sessions to the desired servers and publishes what changes; the entry point is New
//	engine     config → tracker → log → readers in one Run; start here if you need a log
//	journal    the log of events: the interface Log, and Memory
//	journal/sqlitelog  the log in a SQLite file: one process writes, others may read
//	journal/natslog    the log on a NATS cluster, with leases for the processes that share it
//	event      the event envelope, its payloads, and the table of event types
//	session    one live MCP connection: handshake, list, subscribe, read, call
//	catalog    values: what one server offers, digests, and the difference between two lists
//	cache      values: resources, prompts and tool results that a tracker's clients have read
//	status     values: the state of servers and of the processes that follow them
//	mcpserver  an MCP server for clients of all protocol versions
//	mcpevents  MCP Events: the log, served to MCP clients by poll, stream and webhook
//
// output/feed, output/webhook and output/realtime deliver the events of a log. All other packages are
// public only because commands and output, which lie in other folders, import them. They may change
// without notice.
//
// # All packages
//
// Configuration:
//
//	config/tree        parses JSON, TOML and YAML into one tree with positions
//	config/edit        replaces one value in the text of a config, and undoes it byte for byte
//	config/hosts       the config files of other hosts (Claude, Cursor, …) and where they are
//	config/credential  recognises credentials in config values
//	reload     applies a config file again when it or a file that it refers to changes
//	trust      stores which configs the user has approved
//	lock       the file mcptrack.lock: what the user approved of each server, and what differs from it
//	filewatch  reports that a file or a tree may have changed
//
// Connections to servers:
//
//	session/internal/wire  the transports: stdio, Streamable HTTP, SSE
//	guarded       an HTTP client for URLs that servers choose: no private addresses, limited responses
//	login         OAuth: discovery, registration, tokens; one process renews a token for all
//	process       a child process and its process group: start, stop, no leftovers
//	machine       the MCP servers that run on this machine, whoever started them
//	launcher      parses the command lines of npx, uvx, docker and other programs that start servers
//	lock/guard    decides what may be served of servers, by the lock file that it follows
//	lock/observe  connects to servers and lists what they offer, for the lock
//	lock/launch   describes how a configured server is started, and which package and files that runs
//	servercard    server cards: finds and parses the cards of a domain, and makes ours
//	mcp           the vocabulary of the protocol: methods, error codes, versions, capabilities
//
// Tracking:
//
//	tracker/internal/coalesce     decides when to read a resource and what to publish about it
//	tracker/internal/eventsource  follows the MCP Events that a server sends
//	calls      values: which client called which tool, and the newest of them in memory
//	history    the versions of a resource, from its events
//	journal/scoped  shows the events of some servers under other ids
//	journal/internal/storing  the queue, health and lifetime that both stored logs share
//
// Serving MCP:
//
//	gateway    serves all tracked servers through one MCP endpoint
//	gateway/upstream     HTTP APIs that describe their routes, as tools
//	gateway/capindex     the index of all capabilities, as resources
//	gateway/changetools  two tools for models: list changes, and wait for the next one
//	vault      a folder of Markdown notes as live resources
//	skill      the entries of skills: their files, checked and compared
//	demo       the built-in demo server
//	daemon               one set of servers for all clients of a user
//	daemon/ipc           the socket of the user's daemon, how clients find and start it, and the handshake
//	daemon/relay         connects a client that uses stdio to the daemon, and connects it again
//	daemon/attach        serves an MCP client on stdio through the daemon
//	internal/subscriptions  which client subscribed to which URI, and its pending notifications
//
// Shared by all of them:
//
//	eventstream  writes and parses server-sent events
//	tracing      OpenTelemetry spans of requests and events, and the trace context in _meta
//	backoff      the delays between attempts
//	ipscope      classifies addresses: loopback, private, public
//	glob         validates and matches globs in linear time
//	uritemplate  expands and matches RFC 6570 templates
//	uri          the normal form of URIs that are spelled differently
//	printable    makes untrusted text printable, and rewords errors of Go's library
//	textdiff     compares two texts line by line
//	suggest      finds the likely correction of a misspelled word
//	atomicfile   replaces a file atomically
//	records      small values by key, such as the subscriptions of webhooks, in a file or on a cluster
//	nowait       reads and writes pipes and sockets without telling the scheduler, which is faster
//	secretfile   reads or creates a file with a token or key that only its owner can read
//	hook         receives the incoming webhooks of a config: verifies, limits and counts their messages
//	keyring      reads secrets from the user's keyring within a time limit
//	standardwebhooks  Standard Webhooks: secrets, signatures, and a receiver
//	internal/fair       limits that principals share fairly
//	internal/rawjson    members and elements of JSON, in order and not decoded
//	internal/textindex  full-text search with ranking
//	internal/proctable  reads the process table of Linux
//	internal/program    finds the file that a command runs
//	internal/regularfile  reads regular files of limited size, and never blocks on others
//	internal/wake       a channel that wakes one goroutine, and a change that wakes all who wait
//	internal/writable   reports which other users can modify a file
//
// For tests (only tests, and each other, import them; they are not internal because tests of commands and output
// need them too):
//
//	session/sessiontest      a scriptable fake MCP server of both eras, over pipes and HTTP
//	mcpserver/mcpservertest  real legacy MCP clients
//	journal/journaltest      the tests that every log must pass
//	login/logintest          an authorization server, and an MCP server that requires its tokens
//	lock/locktest            changes that a server can make, with the classes that they must have
//	ipscope/ipscopetest      addresses that are not public, and a resolver
//	internal/recordstest     the tests that every store of records must pass
//	peertest                 finds the real programs that tests run against
//
// # Imports
//
// Imports point one way: cmd → commands → output → core, and within core
//
//	tracker → session → session/internal/wire → process
//	   │         └────→ login, config, catalog
//	   └─→ journal → event → cache → catalog
//	engine → tracker, reload, journal/natslog
//	daemon → gateway, engine, daemon/ipc
//	gateway → mcpserver, tracker, gateway/upstream, gateway/capindex → internal/textindex
//	gateway/changetools → mcpevents → mcpserver, journal
//	reload → filewatch, config, event
//	vault → mcpserver, skill, filewatch, internal/textindex
//
// Events are values: event imports neither config nor any publisher. A publisher converts its own
// types to payloads. Nothing in core depends on a terminal, a flag or the process's standard streams.
// deps_test.go enforces these rules and gives the reason for each.
//
// # Where a change belongs
//
//	a new event type            core/event: its payload (payload.go) and one row of the table (definitions.go),
//	                            from which the manual's table is made. Published by core/tracker: publish.go for
//	                            states, lists and resources, events.go for server.event, cards.go for
//	                            server.card_changed; by core/engine: drifts.go for lock.drift. Merged while it waits in
//	                            a stored log: core/journal/internal/storing/queue.go. Described by
//	                            describe.go, for all outputs; output/agent/changes.go has the types that agents are told
//	a new config key            one row in core/config/keys.go and the field that it fills (config.go). The reader,
//	                            the schema, init, equality, approval and help config follow from the row. A new
//	                            Go type of field also needs a case in key.fill and key.property
//	what needs approval         the rows of core/config/keys.go; intent.go makes the digest. Who is asked, and when:
//	                            commands/internal/cli/permission.go
//	what must not be shared     core/launcher/holds.go: the words by which connect knows such servers
//	the config of another host  core/config/hosts, and core/config/containers.go for a new format;
//	                            commands/connect/form.go: how its entries run mcptrack-attach
//	a header sent to servers    core/session/dial.go; core/session/internal/wire if it depends on the request
//	a limit on what servers send  core/session: options.go, session.go (wireConfig), internal/wire (MaxLine also limits
//	                            an SSE event); commands/internal/cli/connect.go and commands/topics/limits.md
//	how attempts are spaced     core/backoff; of connections: core/tracker/worker.go
//	why a server is Unconfigured  core/config/entry.go (lacks), with a code in problem.go
//	when a lease is given up    core/journal/natslog/lease.go; of a server: core/engine/sharing.go
//	a task without its client   core/gateway/sessions.go
//	a header of our responses   output/web/guard.go; on the daemon's socket: core/daemon/serve.go
//	what divides sharing        core/daemon/share.go; the variables: core/process/start.go
//	how server cards are found  core/servercard: discover.go; our own: serve.go; in a config: commands/internal/draft/card.go
//	how a login is made         core/login/flow.go; where logins are stored: core/login/store.go
//	which lists are read, when  core/tracker/sync.go
//	when a resource is read     core/tracker/internal/coalesce; polls: core/tracker/scope.go, safety reads: unannounced.go
//	how content is digested     core/session/read.go; core/tracker/internal/coalesce/read.go compares digests
//	another log                 core/journal/log.go is the contract; core/journal/journaltest tests it
//	a new command               a file in commands, or a folder for a feature; registered in commands/main.go
//	a column of list            output/table; JSON: commands/list.go
//	a new -o format             output/document; for events, commands/stream.go
//	a format of findings for CI  output/report
//	a rule of audit             commands/audit: rules.go, and the check beside similar checks
//	a new way to show events    a package in output; wired in commands/stream.go (watch, subscribe) or
//	                            commands/serve/serve.go (serve-sse)
//	a filter of /events         output/feed/query.go and frame.go; commands/serve/serving.md
//	a page of the dashboard     output/dashboard/assets; its data: output/dashboard/api.go, core/status/status.go
//	how incoming webhooks are signed  core/hook/scheme.go, and the words of "verify" in core/config/hook.go;
//	                            what a message causes: core/engine/hooks.go, core/tracker/touch.go
//	a new metric                output/metrics/metrics.go. A server's counts: Counts in core/status/status.go,
//	                            filled in core/tracker/publish.go from coalesce and the worker's fields
//	what is traced              core/tracing: the spans and their attributes; output/otlp: where they are sent;
//	                            commands/main.go (isTraced): by which commands
//	what agents are told        output/agent/changes.go; what is remembered between runs: reader.go
//	who may make a request      output/web: guard.go, auth.go
//	how webhooks are delivered  output/webhook: worker.go (when and how often; also in doc.go, commands/serve/webhooks.md
//	                            and commands/gateway/mcp-events.md), sender.go (the request), format.go (the body),
//	                            guard.go and urls.go (allowed addresses), deliverer.go (on a cluster)
//	which webhooks are received core/standardwebhooks/receiver.go; core/tracker/internal/eventsource/webhook.go
//	                            subscribes to them
//	a type of MCP Events        core/mcpevents: types.go, occurrence.go, query.go
//	which clients share a server  core/daemon/share.go; how a connection begins: core/daemon/ipc
//	a method of our MCP server  core/mcp for its name, core/mcpserver for the handler
//	which items a gateway shows core/gateway: by name or URI filter.go; by content run.go (checkAs); by the lock locked.go
//	a tool of the vault         core/vault/server.go; what is a skill, and what its entry contains: skills.go
//
// # Glossary
//
//	ad-hoc subscription  a gateway's subscription to a resource that the config does not track, made
//	                     because a client of the gateway subscribed to it
//	baseline       the first digest of a resource; it is stored, and nothing is published
//	cause          how a change was detected: notify, trailing, resync, poll, event, hook
//	coalesce       to merge several announcements of one resource within a window into one event
//	digest         the hash of a resource's content; two reads are compared by digest
//	epoch          the first part of an event id; each log, or each run without a log, has its own
//	era            legacy is MCP 2024-11-05 to 2025-11-25 (initialize, resources/subscribe);
//	               modern is 2026-07-28 (server/discover, subscriptions/listen)
//	gap            for a tracker: a period in which notifications may have been lost;
//	               for a reader of the log: events that are no longer stored
//	hook           an incoming webhook: a URL at which other programs report that something changed
//	in flight      sent but not yet answered
//	lease          the exclusive right of one of several processes to follow a server
//	leading        the event that opens a window; trailing: the event at its end, published only if the
//	               content changed again
//	listen         the modern subscription: one request whose response is a stream of notifications
//	poll           to read at an interval, because the server does not push
//	principal      all clients with the same credentials, or with tokens of the same name; without tokens,
//	               all clients are one principal
//	push           to send a notification when something changes
//	resync         to list and compare everything because notifications may have been lost
//	state          the state of a server: Pending, Connecting, Ready, Backoff, …
//	sweep          one read of every resource of a server, spread over time, after its list changed
//	sync           one listing of everything that a server offers, and the subscriptions that result
//	tombstone      the stored digest of a resource that is no longer in its server's list
//	VibeChat       a client with its own event format, served at /api/mcp/resource-events
//	window         the 2 s after an announcement in which further announcements are coalesced
package core
