package tracker

import (
	"maps"
	"slices"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// firstLists records, for one session, which lists the server has answered in the first sync. It is safe for
// concurrent use.
type firstLists struct {
	mu       sync.Mutex
	asked    map[catalog.Kind]bool // lists that have not been answered
	answered bool                  // another list has been
}

func (l *firstLists) begin(k catalog.Kind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked == nil {
		l.asked = map[catalog.Kind]bool{}
	}
	l.asked[k] = true
}

func (l *firstLists) end(k catalog.Kind, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !unanswered(err) {
		delete(l.asked, k)
		l.answered = true
	}
}

// result returns the lists that were not answered, and whether another one was.
func (l *firstLists) result() (silent []catalog.Kind, answered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.asked)), l.answered
}

// inOrder sorts lists in the order in which they are requested one after another: tools first,
// because it matters most.
func inOrder(kinds []catalog.Kind) []catalog.Kind {
	return slices.SortedFunc(slices.Values(kinds), func(a, b catalog.Kind) int {
		order := append([]catalog.Kind{catalog.Tools}, catalog.Kinds()...)
		return slices.Index(order, a) - slices.Index(order, b)
	})
}

// blame is called when a session has ended before its first sync was done. If a list was not answered,
// because the server hangs or dies of it, the next sessions do without it, unless it was known before: then
// something else is to blame. If there are several such lists, the next session requests one after the other,
// which shows the one to blame. kinds are the wanted lists; if all of them are to blame, none is left out.
func (e *eras) blame(l *firstLists, kinds []catalog.Kind, known func(catalog.Kind) bool) (left catalog.Kind) {
	silent, answered := l.result()
	switch {
	case len(silent) == 0:
		return ""
	case len(silent) > 1 || !answered && !e.careful:
		e.careful = true
		return ""
	case len(kinds) <= 1: // all others are left out
		e.left, e.careful = nil, false
		return ""
	case known(silent[0]):
		return ""
	}
	e.left = maps.Clone(e.left)
	if e.left == nil {
		e.left = map[catalog.Kind]bool{}
	}
	e.left[silent[0]] = true
	return silent[0]
}
