// Package capindex describes all capabilities of a gateway in three documents, so that a
// client learns with one read what would otherwise require a request for every list:
//
//	capability-index://summary  Markdown, at most 12,000 bytes: counts, servers,
//	                            keywords, latest updates
//	capability-index://full     Markdown: every element with its description and
//	                            parameters, at most 2 MiB
//	capability-index://stats    JSON, under 4 KB: counts and sizes
//
// It also provides a tool that searches all capabilities. Its input is [Capabilities], which are
// independent of sessions and gateways.
//
// # Promises
//
//   - All documents and the search use the same generation, which is created from one snapshot.
//     Concurrent readers share a generation, which remains valid for TTL or until
//     [Index.Invalidate]. A reader that starts after Invalidate receives a newer generation.
//   - Equal snapshots produce equal bytes except for the generation time, which digests
//     ignore. [Index.Changed] therefore distinguishes a change from a regeneration.
//   - Names and descriptions are untrusted data. In Markdown, each is one escaped line
//     without invisible characters; in JSON, they are strings.
//   - The documents of an empty snapshot are valid.
//
// An Index has no goroutine: the reader that finds no valid generation creates one.
package capindex
