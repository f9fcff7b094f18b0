package tracker

import "sync/atomic"

// textBudget bounds the text that is kept for content and diffs in events.
type textBudget struct {
	each, all int64
	used      atomic.Int64
}

// replace accounts for one content taking the place of another, and returns it
// without its text if there is no room for that.
func (b *textBudget) replace(was, now content) content {
	if was.text != nil {
		b.used.Add(-int64(len(*was.text)))
	}
	if now.text == nil {
		return now
	}
	n := int64(len(*now.text))
	if n > b.each || b.used.Add(n) > b.all {
		if n <= b.each {
			b.used.Add(-n)
		}
		now.text = nil
	}
	return now
}
