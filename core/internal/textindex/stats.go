package textindex

// Stats are the sizes of an index.
type Stats struct {
	Documents     int
	Terms         int     // different terms; those of removed documents count until they are discarded
	Postings      int     // pairs of a term and a document that has it; removed documents count as in Terms
	AverageLength float64 // of a document, in words counted with weights
	Bytes         int     // of memory, estimated; 0 for an empty index
}

// Stats returns the sizes.
func (x *Index[ID]) Stats() Stats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := Stats{Documents: len(x.byID), Terms: len(x.terms.entries), Postings: x.terms.postings}
	if s.Documents > 0 {
		s.AverageLength = float64(x.length) / float64(s.Documents)
	}
	// Measured, and verified by a test: growing slices are a fifth empty, and a map entry
	// of a string and a pointer needs about 40 bytes.
	const perDocument, perTerm, perStem = 70, 40 + 48 + 10, 55
	s.Bytes = len(x.docs)*perDocument + len(x.stems)*perStem +
		(x.terms.postings+x.forms.postings)*5 +
		(len(x.terms.entries)+len(x.forms.entries))*perTerm + x.terms.keyBytes + 2*x.forms.keyBytes
	return s
}
