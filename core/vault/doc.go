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
// digest and size of every file below the folder. A folder is not served as a skill, and the log says why, if
// SKILL.md breaks the rules of Agent Skills or of package skill, or its files exceed the limits there. A read
// of a file returns the bytes that the entry describes: if the file on disk differs, the index is updated
// first. A change of any entry is announced as a change of the list of resources, with no minimum interval.
//
// # Contract
//
// Convergence: once the folder has been unchanged for Quiet, the index matches the files on disk; see
// core/filewatch.
//
// Order: the index is replaced atomically before subscribers are notified. A read after a notification returns
// the new state or a newer one.
//
// Loss: an update means that the rendered resource differs; the resource of a folder has a digest of all its
// descendants. Bursts are merged, to one update per Spacing and one list per ListSpacing, and the last change is
// always published. A change that is reverted between two scans is not detected.
//
// Limits: notes of up to MaxNoteBytes, MaxEntries files and folders, 64 levels. vault://structure counts what
// was skipped, by reason. Tags, links and words are from the first MiB of a note. The index does not store the
// text of notes.
//
// Ownership: Run and Search wait for the goroutines that they start.
//
// What is part of the vault: regular files with exactly one hard link, because another name may be outside;
// not hidden files and folders, temporary files of editors, what Ignore matches, names that no URI can have, nor
// anything behind a symbolic link. Every access goes through an os.Root, and the opened file must be the one
// that the path currently refers to; the folder of notes that are read together is opened once.
//
// Libraries: goldmark parses Markdown; yaml/v4 and go-toml/v2 parse frontmatter.
package vault
