// Package textindex is an in-memory inverted index. Hits are ranked by BM25 (Robertson
// and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009) with
// k1 = 1.2 and b = 0.75:
//
//	score(d) = Σ idf(t) · f·(k1+1) / (f + k1·(1 − b + b·len(d)/avg))
//	idf(t)   = ln(1 + (N − n(t) + ½) / (n(t) + ½))
//
// f is the frequency of the term in the document, with each occurrence weighted by its
// field, and len the number of words of the document, weighted likewise (§3.6 there,
// "simple BM25F"). A frequency is capped at 255, which changes a score by only a few
// per cent.
//
// # Promises
//
//   - Results do not depend on history: after any sequence of puts and removals they
//     equal the results, including scores, of an index of only the remaining documents.
//     The exception is when a limit was reached: then the first documents are kept.
//   - Hits are ordered by score, equal hits by ID. The same index and query give exactly
//     the same hits.
//   - Limits: the number of documents and terms, the number of different words of a
//     document, and the length of a word and of a text; see [Options]. Anything beyond
//     is not indexed. A search needs 16 bytes for each document, and time for each word
//     of the query: callers must limit the length of untrusted queries.
//
// # Concurrency
//
// All methods are safe for concurrent use. Searches run in parallel. [Index.Put] counts
// the words of its texts before it locks the index, so concurrent puts count in parallel.
// The only callback that runs while the index is locked is [Options.Term]. The package
// starts no goroutines.
//
// # Memory
//
// Each posting (a term in a document) needs 4 bytes, and each distinct term about 100. Texts are not stored.
// Removed documents remain, invisibly, until they exceed a quarter of all; then the put or
// removal sweeps them.
//
// # Libraries
//
// blevesearch/snowballstem: the English stemmer of [English]. The index is implemented here, because
// bleve/v2 v2.6.1 adds 7 MB to the program and, used or not, 4 ms and four goroutines to
// each start. 10,000 notes of 2 KB took 41 MB of heap in its memory index (here 16), and
// every single note saved afterwards 0.8 MB more.
package textindex
