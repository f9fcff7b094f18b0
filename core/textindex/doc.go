// Package textindex is an inverted index in memory: of every term the documents that
// have it. What a search finds is ranked by BM25 (Robertson and Zaragoza, "The
// Probabilistic Relevance Framework: BM25 and Beyond", 2009) with k1 = 1.2 and
// b = 0.75:
//
//	score(d) = Σ idf(t) · f·(k1+1) / (f + k1·(1 − b + b·len(d)/avg))
//	idf(t)   = ln(1 + (N − n(t) + ½) / (n(t) + ½))
//
// f is how often the term is in the document, each time counted with the weight of
// its field, and len the words of the document, counted so too (§3.6 there, "simple
// BM25F"). One document counts at most 255 of a term, which costs a score at most a
// few per cent.
//
// # What it promises
//
//   - The index has no history: after any puts and removals it finds the same, with
//     the same scores, as one that was given only what is left. The exception is a
//     bound that was reached; then what came first is in.
//   - Hits are in the order of scores, equal ones in the order of their IDs. The same
//     index and query give the same hits, bit by bit.
//   - Bounds: documents, different terms, different words of a document, the length
//     of a word and of a text; see [Options]. What is beyond is not found. A search
//     needs 16 bytes for each document, and time for each word that it looks for:
//     whoever takes queries from strangers bounds their length.
//
// # Concurrency
//
// All methods may be called from any goroutine. Searches run beside each other.
// [Index.Put] counts the words of its texts before it waits for them, so that many
// puts count at once; they take in what they counted one at a time. No caller's
// function runs while the index is locked but [Options.Term], and there is no
// goroutine.
//
// # Memory
//
// A term of a document is 4 bytes, and a term about 100; texts are not kept. What is
// removed stays, unseen, until it is a quarter of all, and is then swept by the put
// or removal that made it so much.
//
// # Libraries
//
// blevesearch/snowballstem: the English stemmer of [English]. The index is our own:
// bleve/v2 v2.6.1 was measured to add 7 MB to the program and, used or not, 4 ms and
// four goroutines to each of its starts. 10,000 notes of 2 KB took 41 MB of heap in
// its memory index (here 16), and each that was then saved alone 0.8 MB more.
package textindex
