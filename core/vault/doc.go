// Package vault serves a folder of Markdown notes, such as an Obsidian vault, over
// MCP. Notes, folders, recent changes, tags, statistics and structure are resources
// whose subscribers are notified of every change, whichever program made it.
//
// A [Vault] indexes a folder and keeps the index in sync with the disk; it does not
// depend on MCP. A [Server] serves a Vault to clients through core/mcpserver.
//
// # Resources
//
//	vault://recent      ?mode=preview|full &limit=1…100 &offset=   notes, newest first
//	vault://stats       the number of files and notes
//	vault://tags        ?mode=summary|full                         tags, with the number of notes that have each
//	vault://structure   the folder tree with file names
//	vault://note/{+path}     the text of a note
//	vault://folder/{+path}   the entries of a folder, and a digest of everything below it
//	skill://PATH             a file of a skill, at a path in the vault
//
// # Skills
//
// A folder with a SKILL.md is a skill (https://agentskills.io/specification), which hosts find with the
// extension io.modelcontextprotocol/skills (SEP-2640): its entry has the frontmatter of SKILL.md and the
// digest and size of every file below the folder, of any type. If the vault's folder itself has a
// SKILL.md, its name precedes all paths. A folder is not served as a skill, and the log says why, if
// SKILL.md breaks the rules of Agent Skills or of package skill, if there are more than 512 files or 16
// MiB, or if a file is larger than MaxNoteBytes or cannot be read. Files that are not part of the vault
// (see below) are not part of a skill either. All entries together list about MaxEntries files at most,
// of at most 10,000 skills.
//
// A read of a file returns the bytes that the entry describes: if the file on disk differs, the index is
// updated first. An entry that is requested after a read is therefore never older than what was read.
// The protocol has no notification for skills, so a change of any entry is announced as a change of the
// list of resources, with no minimum interval.
//
// # Promises
//
//   - Convergence: once the folder has been unchanged for Quiet, the index matches
//     the files on disk. The documentation of core/filewatch explains how changes are
//     detected, including changes that cause no event.
//   - Order: the index is replaced atomically before subscribers are notified. A read
//     after a notification returns the new state or a newer one.
//   - Only real changes are published: an update means that the rendered resource
//     differs. The document of a folder contains a digest of all its descendants, so it is
//     updated whenever any of them changes. A change that is reverted between two scans
//     is not detected.
//   - Rate: a resource is published at most once per Spacing, the list of notes at
//     most once per ListSpacing unless a skill has changed. Bursts are merged, and the last change is always
//     published.
//   - Limits: notes of up to MaxNoteBytes, MaxEntries files and folders, 64 levels.
//     vault://structure counts the entries skipped because of a limit, by reason. Tags,
//     links and words are extracted from the first MiB of a note; frontmatter nested more
//     than 64 levels deep is omitted. Markup that would take quadratic time to parse is
//     simplified, but only for the parser; clients always read the original text. The
//     index does not store the text of notes, which is read on request.
//   - Ownership: Run and Search wait for the goroutines that they start.
//
// # What is part of the vault
//
// Regular files with exactly one hard link are part of the vault. Hidden files and
// folders (.obsidian, .trash, .git), temporary files of editors, and everything that
// Ignore matches are excluded. Symbolic links are not followed, not even to targets
// within the vault, and FIFOs, sockets and devices are never opened. A file with
// several hard links is skipped because its other name may be outside the vault; as
// some programs briefly create a hard link while they save, it is checked again after
// a second. Names that are not valid UTF-8, or contain control characters or
// backslashes, are skipped because no URI could address them.
//
// Every access goes through an os.Root, and the opened file must be the one that
// the path currently refers to, so a link created during the access is not followed.
//
// Libraries: goldmark parses Markdown, with the wikilink extension of go.abhg.dev; yaml/v4 and go-toml/v2 parse
// frontmatter.
package vault
