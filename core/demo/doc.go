// Package demo implements the MCP server that "mcptrack watch --demo" starts: a small
// vault of notes in a temporary directory, which a scenario edits at regular intervals,
// so that new users see changes immediately. Nothing is simulated: the notes are files,
// and core/vault and core/mcpserver turn saves into updates as for any other vault.
//
// # Scenario
//
// There is one tick per interval (2 s by default); the first one occurs one interval
// after Serve was called. Every tick saves clock.md. In addition, a cycle of six ticks
// makes these changes, one per tick: guide.md gains a line; a message arrives in the
// folder inbox (and the oldest is removed if there are more than three); a box in
// tasks.md is toggled; the tool "count_words" is added, changed or removed; the prompt
// "summarize_inbox" is added, changed or removed; guide.md loses a line and a message
// is marked as read. Equal values of Seed and Now produce equal texts.
//
// # Directory
//
// The notes are in the system's temporary directory, are readable only by their owner,
// and are removed when Serve returns.
package demo
