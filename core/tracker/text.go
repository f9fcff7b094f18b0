package tracker

import (
	"sync/atomic"

	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// textBudget bounds the texts of resources that are kept in memory for content and diffs in
// events.
type textBudget struct {
	each, all int64
	used      atomic.Int64
}

// replace accounts for new content in place of old, and returns it, without its text if the
// budget has no room for that.
func (b *textBudget) replace(was, now coalesce.Content) coalesce.Content {
	if was.Text != nil {
		b.used.Add(-int64(len(*was.Text)))
	}
	if now.Text == nil {
		return now
	}
	n := int64(len(*now.Text))
	if n > b.each || b.used.Add(n) > b.all {
		if n <= b.each {
			b.used.Add(-n)
		}
		now.Text = nil
	}
	return now
}
