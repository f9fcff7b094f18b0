// Package lock has the file mcptrack.lock: what the user approved of each server, and how that
// differs from what the server offers now.
//
// A [Lock] has one [Server] for each server id, and a server has items in sections. An [Item] has
// its definition, so that a review of the file shows the text that a model reads. [Hashing.Item]
// makes an item from the bytes that a server sent. An [Observation] is what a server offers.
// [NewServer] approves all of it, and [Compare] returns what drifted since. [Server.Take] approves drift
// and [Server.Reject] rejects it. [Read] and [Update] access the file; all other functions are pure.
//
// # Hash
//
// The hash of an item is SHA-256 over the canonical JSON of RFC 8785 of its whole definition, less the
// members that the lock excludes ([Hashing]). For tools, prompts, sets and instructions it equals
// mcp-pin's "Tool definition hash, version 1", which excludes nothing, except that a text with an
// unpaired surrogate is refused here. RFC 8785 reads numbers as float64: numbers that differ only in
// digits that a float64 does not have are equal.
//
// # Order, bounds, ownership
//
// Lists are sorted by section and key. A file has at most [MaxFile] bytes, a list or an object
// of the file at most [MaxItems] elements, and a definition at most [catalog.MaxDepth] levels. Everything
// in a file or from a server is untrusted; errors quote only printable text. Definitions are not
// copied: do not modify them. A Lock is not safe for concurrent use.
//
// Libraries: go-json-experiment/json (BSD) is the JSON library of the Go team. It has RFC 8785, and
// strict parsing with positions, which encoding/json has not. gofrs/flock (BSD) locks files on all
// systems; the system unlocks them however a process ends. confusables.txt is from Unicode's table of
// characters that look alike.
package lock
