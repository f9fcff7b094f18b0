// Package demo is the MCP server behind "mcptrack watch --demo": a small office
// whose documents, inbox, flags, tools and prompts change on a steady rhythm, so
// that a newcomer sees within one interval what tracking means.
//
// # Rhythm
//
// One tick per interval (2 s), the first one interval after Serve began. Every
// tick updates demo://status/clock. In turns of six ticks the guide gains a line,
// a message arrives in the inbox (and the oldest of too many leaves), a flag
// flips, the tool "translate" comes, changes or goes, the prompt
// "summarize_inbox" does the same, and the guide loses a line while a message is
// marked as read. With equal Seed and Now the same requests get the same answers.
//
// # Delivery
//
// resources/updated goes only to who subscribed to that URI, list changes to
// legacy clients and to those who asked in subscriptions/listen. A client that
// lets 100 notifications pile up loses the next ones, as mcp-go's own transports
// do: a notification is a hint.
//
// mcp-go's server package does the protocol of both eras. Its StdioServer is not
// used: it keeps one session for the whole program in a package variable, does
// not track subscriptions and cannot address listen streams. The connection here
// is one value per Serve.
package demo
