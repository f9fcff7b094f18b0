// Package demo is the MCP server behind "mcptrack watch --demo": a small vault of
// notes in a temporary folder, and somebody who edits them on a steady rhythm, so
// that a newcomer sees within one interval what tracking means. Nothing is played:
// the notes are files, the edits are saves, and how they become updates is the work
// of core/vault and core/serve, as for anybody's notes.
//
// # Rhythm
//
// One tick per interval (2 s), the first one interval after Serve began. Every tick
// saves clock.md. In turns of six ticks guide.md gains a line, a message arrives in
// the folder inbox (and the oldest of too many leaves), a box in tasks.md is ticked
// or not, the tool "count_words" comes, changes or goes, the prompt
// "summarize_inbox" does the same, and guide.md loses a line while a message is
// marked as read. With equal Seed and Now the same ticks save the same texts.
//
// # The folder
//
// It is in the system's folder for temporary files, only its owner may look into it,
// and it goes when Serve returns. A demo that was killed leaves it behind; the next
// demo of the same user removes it, and knows by a lock those that are in use. A
// [Home] is such a folder for what else a demo keeps.
package demo
