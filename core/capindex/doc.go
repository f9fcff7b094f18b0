// Package capindex describes everything that is offered in three documents, so that
// a client learns in one read what would take it a call to every list:
//
//	capability-index://summary  Markdown, at most 12,000 bytes: counts, servers,
//	                            keywords, what was updated last
//	capability-index://full     Markdown: every element with its description and
//	                            parameters, at most 2 MiB
//	capability-index://stats    JSON, under 4 KB: counts and sizes
//
// and a tool that searches them. What is offered comes as a [View], which knows
// nothing of sessions or gateways.
//
// # What it promises
//
//   - All documents and the search come from one generation, made of one view. Any
//     number of readers cause one generation, which lasts for TTL or until
//     [Index.Invalidate]. A reader that comes after Invalidate gets what is
//     generated after it.
//   - The same view gives the same bytes but for the time of generation, which the
//     digests leave out, so that a change can be told from a regeneration:
//     [Index.Changed].
//   - Names and descriptions are data of the servers. In Markdown they are one line
//     each, escaped, without invisible characters; in JSON they are strings.
//   - A view of nothing is a valid document. A panic while generating is an error of
//     the readers that waited for it, and is not kept.
//
// # Ownership
//
// New starts nothing and an Index at rest has no goroutine. A generation runs in
// one of its own, so that a reader that leaves does not take it from the others;
// [Index.Close] waits for it.
package capindex
