// Package core is a map of the packages, with a glossary; it has no code.
//
// # Packages
//
// What is wanted, and what changed it:
//
//	config     mcp-servers.json and the configs of other hosts → immutable desired state, with positioned problems
//	config/credential  recognises credentials in the texts of a config
//	config/draft  a new config made from those of other hosts
//	filewatch  reports that a file or a tree may have changed
//	reload     keeps a desired set equal to a config file, as far as it is approved
//	trust      what the user approved of configs that were found in folders
//
// Connections to servers:
//
//	session       one live MCP connection: handshake, list, subscribe, read, call
//	session/internal/wire  what exists only because of a transport: stdio, Streamable HTTP, SSE
//	login         OAuth: discovery, registration, tokens, one renewal for all processes
//	process       a child process and its process group: start, stop, no leftovers
//	mcp           the vocabulary of the protocol: methods, error codes, versions, capabilities
//
// Tracking and publishing:
//
//	tracker    keeps sessions to the desired set and publishes what changes
//	tracker/internal/coalesce  decides for each resource when to read it and what to publish
//	tracker/internal/eventsource  follows the events (MCP Events) that a server offers
//	catalog    values: what one server offers, digests, and how two lists differ
//	cache      what clients of a tracker read: resources, prompts, results of tools
//	event      the event envelope and the table of event types
//	status     values: what is known of servers and of the processes that follow them
//	journal    the log of events, in memory: one order, followers that fall behind get a gap
//	journal/sqlitelog  the log in a file, which one process writes and others may read
//	journal/natslog    the log on a NATS cluster, with leases for the processes that share it
//	engine     config → tracker → log → readers; servers shared between processes by leases
//	history    the versions of a resource, from its events
//	mcpevents  MCP Events: the log for MCP clients, by poll and push
//	changetools  two tools for models: what changed, and a wait for changes
//
// Serving MCP:
//
//	mcpserver      an MCP server of both eras: a catalog, and functions behind it
//	internal/subscriptions  which client subscribed to what, and what it was not notified of yet
//	gateway        the tracked catalogs, served again through one MCP endpoint
//	upstream       HTTP APIs that describe their routes, as tools
//	capindex       an index of all capabilities, as resources
//	vault          a folder of Markdown notes as live resources
//	demo           the built-in demo server
//
// Shared by all of them, and knowing none of them:
//
//	eventstream  one writer and one parser of server-sent events
//	internal/fair  limits that clients share, of which every principal gets its part
//	backoff      the waits before another attempt
//	ipscope      which addresses are public, and which hosts are this machine
//	printable    hostile text becomes printable text, errors plain words, JSON without HTML escapes
//	uritemplate  RFC 6570 templates: expand and match
//	glob         validates and matches globs, in linear time
//	internal/textindex  documents found by their words, ranked
//	atomicfile   replaces a file as a whole
//	secretfile   reads a token or key from a file that only its owner can read, or makes the key
//	writable     who else could change a file
//	keyring      reads secrets from the user's keyring, within a time limit
//	suggest      the word that a misspelled one was probably meant to be
//	completion   what servers listed, cached for the completion of shells
//	standardwebhooks  Standard Webhooks: secrets, signatures, and the receiver of what servers send
//
// # Imports
//
// Imports point one way: cmd → commands → output → core, and within core
//
//	tracker → session → session/internal/wire → process
//	   │         └────→ login, config, catalog
//	   └─→ journal → event → cache → catalog
//	engine → tracker, reload, journal/natslog
//	changetools → mcpevents → mcpserver, journal
//	reload → filewatch, config, event
//	gateway → mcpserver, tracker, upstream, capindex → textindex
//	vault → mcpserver, filewatch, textindex
//
// Events are values: event imports none of what publishes them, nor config, and whoever
// publishes converts its own types to the payload's.
//
// deps_test.go holds the rules, each with its reason. Embedders start with
// tracker.New, or with engine.New for a log. Nothing in core knows of a
// terminal, a flag or the process's standard streams.
//
// # Where a change belongs
//
//	a new event type            core/event: its payload type (payload.go) and one row of the table
//	                            (definitions.go), from which the manual's table comes; who publishes it:
//	                            core/tracker, publish.go for states, lists and resources, events.go for server.event; how
//	                            it is shown: output/lines/describe.go, output/dashboard/assets/feed.js,
//	                            output/agent/changes.go
//	a new config key            core/config: config.go and server.go (the field; transport.go,
//	                            tracking.go), keys.go, equal.go and schema.json; commands/topics/config.md
//	what needs approval         core/config: effectiveKeys in keys.go, intent.go; who is asked and when:
//	                            commands/internal/cli/permission.go; commands/topics/trust.md
//	a new way to show events    a package in output/, wired up in commands/stream.go (watch, subscribe)
//	                            or commands/serve (serve-sse)
//	a column of list            output/table; as JSON: commands/list.go
//	a new -o format             output/document: its name, its help and Write; for events commands/stream.go
//	how content is digested     core/session/read.go; core/tracker/read.go compares
//	a filter of /events         output/feed: filter.go, and frame.go for what it can look at; another
//	                            parameter: query.go; commands/serve/serving.md
//	when a resource is read     core/tracker/internal/coalesce
//	what is listed, and when    core/tracker: the sync
//	a limit on what servers send  core/session (options) and core/session/internal/wire; commands/internal/cli/connect.go and
//	                            commands/topics/limits.md
//	how attempts are spaced     core/backoff, and the options of the package that waits
//	                            (servers: core/tracker Options.MaxBackoff, which also bounds syncs after gaps
//	                            and MCP Events; commands/topics/events.md names it)
//	a new metric                output/metrics/collector.go; of a server its source is core/tracker: Counts in
//	                            status.go, counted in publish.go; of the process it is Options in
//	                            metrics.go, set in commands/serve/serve.go and commands/gateway/events.go
//	a page of the dashboard     output/dashboard: assets/server.js, assets/resource.js and so on; what all
//	                            servers have in the overview: core/status/status.go; what only the page
//	                            of one shows: detail.go
//	the config of another host  core/config/hosts, and core/config/containers.go if its format is new;
//	                            commands/topics/config.md
//	a header sent to servers    core/session/dial.go; core/session/internal/wire if it depends on the request
//	how a login is made         core/login
//	where logins are kept       core/login: store.go and files.go; the choices: commands/internal/cli/connect.go and
//	                            commands/login/login.go, login.md
//	a tool of the vault         core/vault: tools.go and call.go
//	a new command               a file in commands/, or a folder if it is a feature; added in commands/main.go
//	who may make a request      output/web
//	what is reported to agents  output/agent: which events, and how names are shown, changes.go; what is
//	                            remembered between runs cursor.go
//	how webhooks are delivered  output/webhook: when and how often worker.go, the request sender.go, how
//	                            it is signed core/standardwebhooks/secret.go, what it may reach guard.go, urls.go,
//	                            on a cluster election.go
//	which webhooks are received core/standardwebhooks: the checks, their order and limits, and paths receiver.go;
//	                            when they are subscribed to: core/tracker/internal/eventsource/webhook.go
//	another form of a webhook   output/webhook: format.go; core/config: webhook.go and keys.go
//	a method of our MCP server  core/mcp for its name, core/mcpserver to handle it
//	which items a gateway shows core/gateway: the filter and the view
//	a type of MCP Events        core/mcpevents: types.go, occurrence.go, query.go; how those of other
//	                            servers are followed: core/tracker/internal/eventsource
//
// # Glossary
//
//	ad-hoc subscription  a gateway's subscription to a resource that the config does not track,
//	                     made because one of its clients subscribed
//	baseline       the first look at a resource: its digest is remembered, nothing is published
//	cause          why an update was published: notify, trailing, resync, poll, event
//	coalesce       to publish several announcements of one resource within a window as one event
//	digest         the hash of a content, by which two reads are compared
//	epoch          the first part of an event's id: one log, or one run without a log
//	era            legacy is MCP 2024-11-05 to 2025-11-25 (initialize, resources/subscribe);
//	               modern is 2026-07-28 (server/discover, subscriptions/listen)
//	gap            a time in which notifications may have been lost; for a reader of the log,
//	               events that are no longer stored
//	in flight      sent, and not answered yet
//	lease          the right of one of several processes to follow a server
//	leading        the event that opens a window; trailing is the one at its end, published only
//	               if the content changed again
//	listen         the modern subscription: one request whose answer is a stream of notifications
//	poll           to read at an interval, for servers that do not push
//	principal      the clients that present the same credentials, or a token of the same name; without
//	               tokens all clients are one
//	push           to send a notification when something changes
//	resync         to list and compare everything again because notifications may have been lost
//	state          where a server stands: Pending, Connecting, Ready, Backoff, …
//	sweep          one read of every resource of a server, spread over time, after its list changed
//	sync           one list of everything a server offers, with the subscriptions it leads to
//	tombstone      the digest that is remembered of a resource that left its server's list
//	VibeChat       a client with an event format of its own, which /api/mcp/resource-events serves
//	window         the 2 s after an announcement in which further ones are coalesced
package core
