// Package vault serves a folder of Markdown notes, such as an Obsidian vault, over
// MCP. Notes, folders, recent changes, tags, statistics and structure are resources
// whose subscribers are notified of every change, whichever program made it.
//
// A [Vault] indexes a folder and keeps the index in sync with the disk; it knows
// nothing of MCP. A [Server] serves a Vault to clients through core/mcpserver.
//
// # Resources
//
//	vault://recent      ?mode=preview|full &limit=1…100 &offset=   notes, newest first
//	vault://stats       the number of files and notes
//	vault://tags        ?mode=summary|full                         tags, with the number of notes that have each
//	vault://structure   the folder tree with file names
//	vault://note/{+path}     the text of a note
//	vault://folder/{+path}   the entries of a folder, and a digest of everything below it
//
// # Promises
//
//   - Convergence: once the folder has been unchanged for Quiet, the index equals
//     what is on disk. core/filewatch documents how changes are found, including
//     those that produce no event.
//   - Order: the index is replaced atomically before subscribers are notified. A read
//     after a notification returns the new state or a newer one.
//   - Only real changes are published: an update means that the rendered resource
//     differs. A folder contains a digest of everything below it, so it is updated
//     whenever anything below it changes. A change that is reverted between two scans
//     is not seen.
//   - Rate: a resource is published at most once per Spacing, the list of notes at
//     most once per ListSpacing. Bursts are coalesced and the last change is always
//     published.
//   - Limits: notes of up to MaxNoteBytes, MaxEntries files and folders, 64 levels.
//     vault://structure counts what exceeds them, with the reason. Tags, links and
//     words come from the first MiB of a note; frontmatter nested more than 64 levels
//     deep is omitted. Markup that is quadratic to parse is simplified for the parser
//     only; clients always read the original text. The index holds no note texts, they
//     are read on request. Subscriptions to pages of recent and to alternative
//     spellings of a URI are limited to 100,000 in total.
//   - Ownership: Run owns every goroutine except the one that builds the search index,
//     which Close waits for.
//
// # What is part of the vault
//
// Regular files with exactly one hard link. Hidden files and folders (.obsidian,
// .trash, .git), temporary files of editors, and whatever Ignore matches are not part
// of it. Symbolic links are not followed, not even within the vault, and FIFOs,
// sockets and devices are never opened. A file with several hard links is skipped
// because its other name may be outside the vault; as some programs link briefly
// while they save, it is checked again after a second. Names that are not valid
// UTF-8, or contain control characters or backslashes, are skipped because no URI
// could address them.
//
// Every access goes through an os.Root, and the opened file must be the one that
// currently has the name, so a link swapped in during the access leads nowhere.
//
// Libraries: goldmark parses Markdown, with the wikilink extension of go.abhg.dev;
// yaml/v4 and go-toml/v2 parse frontmatter; errgroup limits concurrent reads. The
// hashtag extension of go.abhg.dev is not used: its emoji tables add 1.1 ms to the start
// of every command; nor is its frontmatter extension: it needs the archived yaml.v3.
package vault
