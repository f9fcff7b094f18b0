// Package demo is the MCP server behind "mcptrack watch --demo": a small vault of
// notes in a temporary directory that a scenario edits at regular intervals, so that
// new users see changes immediately. Nothing is simulated: the notes are files, and
// core/vault and core/mcpserver turn saves into updates as for any other vault.
//
// # Scenario
//
// There is one tick per interval (2 s by default), the first one interval after Serve
// began. Every tick saves clock.md. In cycles of six ticks, guide.md gains a line, a
// message arrives in the folder inbox (and the oldest is removed beyond three), a box
// in tasks.md is toggled, the tool "count_words" is added, changed or removed, the
// prompt "summarize_inbox" likewise, and guide.md loses a line while a message is
// marked as read. Equal values of Seed and Now produce equal texts.
//
// # Directory
//
// The notes are in the system's temporary directory, readable by their owner only,
// and are removed when Serve returns. Directories of killed demos are removed by the
// next demo of the same user; a lock marks the directories in use. A [TempDir] is such a
// directory; other parts of a demo also use it for their files.
package demo
