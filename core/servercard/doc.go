// Package servercard finds and parses Server Cards: public documents that describe an MCP server, and
// where to connect to it, before any connection (SEP-2127). It also makes the card of a server of ours.
//
// # Where cards are
//
// [Discover] starts from a domain or a URL that the user chose. It requests the AI Catalog of the domain
// (/.well-known/ai-catalog.json), the location that MCP reserves (<endpoint>/server-card), and the
// locations of earlier drafts (/.well-known/mcp/server-card.json, /.well-known/mcp/catalog.json,
// /.well-known/ard.json), until one of them has a card. The entries of a catalog contain cards, or lead
// to cards or to other catalogs, which may be at other hosts.
//
// # What is trusted
//
// Only what the user typed. All requests go through package guarded, so a card, a catalog and their
// redirects lead to no private address, unless the user named a private host himself: then they may lead
// to that host, but to no other private one. The same holds for the remotes of a card. The number of
// requests and cards, the size and depth of documents, and the time are limited. A card is no authority
// on the server: clients must compare what they see once they are connected.
//
// Sources: github.com/modelcontextprotocol/experimental-ext-server-card (schema.ts, docs/discovery.md,
// July 2026) and github.com/Agent-Card/ai-catalog (specification/ai-catalog.md).
package servercard
