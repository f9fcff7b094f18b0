// Package textindex is an in-memory index of the words of documents. Hits are ranked by BM25
// (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009) with
// k1 = 1.2 and b = 0.75:
//
//	score(d) = Σ idf(t) · f·(k1+1) / (f + k1·(1 − b + b·len(d)/avg))
//	idf(t)   = ln(1 + (N − n(t) + ½) / (n(t) + ½))
//
// f is how often the document contains the term, and len the number of its words; a word of an
// important field counts several times in both (§3.6 there, "simple BM25F").
//
// The index holds a list of terms for each document, and a search reads all lists. FTS5 of SQLite needs a
// database for each index, and splits neither identifiers nor Chinese. For 10,000 notes it took as much
// memory, no less time to index them on one core, and up to a second to find a word that begins many
// others; it adds 4 MB to programs that use only the vault.
package textindex
