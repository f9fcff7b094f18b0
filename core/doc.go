// Package core is the map of the house; it has no code.
//
//	config     mcp-servers.json → immutable desired state, with positioned problems
//	filewatch  "look again": any way a file may have been saved
//	reload     keeps a desired set equal to a config file
//	session    one live MCP connection: dial, era, list, subscribe, read, call
//	process    a child process and its group: start, stop, no leftovers
//	catalog    values: what one server offers, and how two catalogs differ
//	cache      what clients read: resources, prompts, results of tools
//	tracker    keeps sessions to the desired set and publishes what changes
//	event      the one event envelope, for stdout and embedders
//	journal    durable log of events, in this process or on a NATS cluster
//	bus        total order, gapless join, subscriptions that are cut when slow
//	printable  hostile text becomes printable text
//	serve      an MCP server of both eras: a catalog, and functions behind it
//	subscriptions  who is subscribed to what, and not told yet
//	gateway    the tracked catalogs, served again as one MCP server
//	upstream   HTTP APIs that describe their routes as tools
//	textindex  documents found by their words, ranked
//	capindex   an index of all that is offered
//	vault      a folder of Markdown notes as live resources
//	demo       the built-in demo server
//
// Imports point one way: cmd → commands → output → core, and within core
//
//	tracker → session → process
//	   │         └────→ config, catalog
//	   └─→ bus → event → cache, catalog, config
//	reload → filewatch, config, event
//	gateway → serve, tracker, upstream, capindex → textindex
//	vault → serve, filewatch, textindex
//
// deps_test.go holds the rules, each with its reason. Embedders start with
// tracker.New; nothing in core knows of a terminal, a flag or the process's
// standard streams.
package core
