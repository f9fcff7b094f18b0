// Package capindex describes all capabilities of a gateway in three documents, so that a
// client learns in one read what would otherwise take a request for every list:
//
//	capability-index://summary  Markdown, at most 12,000 bytes: counts, servers,
//	                            keywords, latest updates
//	capability-index://full     Markdown: every element with its description and
//	                            parameters, at most 2 MiB
//	capability-index://stats    JSON, under 4 KB: counts and sizes
//
// It also provides a tool that searches them. Its input is a [View], which is independent of
// sessions and gateways.
//
// # Promises
//
//   - All documents and the search come from one generation, made from one view.
//     Concurrent readers share one generation, which lasts for TTL or until
//     [Index.Invalidate]. A reader that starts after Invalidate gets a newer generation.
//   - Equal views give equal bytes except for the time of generation, which digests
//     ignore. [Index.Changed] therefore distinguishes a change from a regeneration.
//   - Names and descriptions are untrusted data. In Markdown each is one escaped line
//     without invisible characters; in JSON they are strings.
//   - The documents of an empty view are valid. A panic during a generation is an error for
//     the readers that waited for it, and is not cached.
//
// # Ownership
//
// New starts nothing, and an idle Index has no goroutine. A generation runs on its own
// goroutine, so that it continues if a reader gives up; [Index.Close] waits for it.
package capindex
