// Package vault is an MCP server over a folder of Markdown notes, in the manner of
// Obsidian: notes, folders, what is recent, tags, statistics and structure as
// resources that tell their subscribers when they change, whoever changed them.
//
// A [Vault] is the index of a folder and keeps itself in line with the disk; it
// knows nothing of MCP. A [Server] gives it to clients by core/serve.
//
// # Resources
//
//	vault://recent      ?mode=preview|full &limit=1…100 &offset=   notes, the newest first
//	vault://stats       how many files and notes there are
//	vault://tags        ?mode=summary|full                         tags and in how many notes they are
//	vault://structure   folders, and the names of what is in them
//	vault://note/{+path}     the text of a note
//	vault://folder/{+path}   what is in a folder, and a digest of all below it
//
// # Promises
//
//   - Truth: once the folder is left alone for Quiet, the index is what is on disk.
//     How changes are found, and what about those that give no event, is told by
//     core/filewatch.
//   - Order: the index is replaced in one step, then what depends on it is compared,
//     then subscribers are told. Whoever reads after being told reads the new state
//     or a newer one.
//   - Only changes are told: an update means that the resource shows something else
//     than before. A folder shows a digest of everything below it, so it tells of
//     anything below it. What changes and changes back between two looks is not seen.
//   - Pace: bursts are folded. A resource is told at most once in Spacing (4 times a
//     second), the list of notes once in ListSpacing, and the last change always is.
//   - Bounds: notes up to MaxNoteBytes, MaxEntries files and folders, 64 levels. What
//     is beyond is left out and counted, with the reason, in vault://structure. Tags,
//     links and words are those of the first MiB of a note; frontmatter that is nested
//     more than 64 levels deep is not told. A text that would keep the parser busy is
//     tamed for it; clients read it as it is. In memory are facts about notes and not
//     their texts, which are read when asked for. Subscriptions to pages and to other
//     spellings of a URI are at most 100,000 together.
//   - Ownership: Run owns every goroutine but the one that indexes texts, which Close
//     waits for.
//
// # What is part of the vault
//
// Regular files below the folder that have one name. Hidden files and folders (so
// .obsidian, .trash and .git), what editors leave while they save, and what Ignore
// says are not there at all. Symbolic links are not followed, also not within the
// vault, and FIFOs, sockets and devices are never opened. A file with more than one
// hard link is left out: its other name may be anywhere, with another owner's
// secrets in it. Programs that save by linking are looked at again after a second.
// Names that are no text, or have control characters or backslashes, are left out
// too: no URI could lead to them.
//
// Every access goes through an os.Root, and what was opened must be the very file or
// folder that has the name: links that are swapped in meanwhile lead nowhere.
//
// Libraries: goldmark parses Markdown, with frontmatter and wikilink of go.abhg.dev;
// doublestar matches globs; errgroup bounds how many notes are read at a time. The
// hashtag of go.abhg.dev was measured and left out: 1.1 ms of emoji tables for every
// command at its start.
package vault
