package tui

import "strings"

// list is a cursor in a list of rows, some of which are visible.
type list struct {
	cursor, top int
}

// move handles the keys of a list of n rows and reports whether key is one of them.
func (l *list) move(key string, n, height int) bool {
	switch key {
	case "up", "k":
		l.cursor--
	case "down", "j":
		l.cursor++
	case "pgup", "ctrl+b":
		l.cursor -= height
	case "pgdown", "ctrl+f", "space":
		l.cursor += height
	case "g", "home":
		l.cursor = 0
	case "G", "end":
		l.cursor = n - 1
	default:
		return false
	}
	l.clamp(n)
	return true
}

func (l *list) clamp(n int) { l.cursor = max(0, min(l.cursor, n-1)) }

// window returns the range of rows to show, which includes the cursor.
func (l *list) window(n, height int) (from, to int) {
	l.clamp(n)
	height = max(height, 1)
	l.top = max(0, min(l.top, n-height, l.cursor))
	if l.cursor >= l.top+height {
		l.top = l.cursor - height + 1
	}
	return l.top, min(n, l.top+height)
}

// scroller shows lines of text without a cursor.
type scroller struct {
	top  int
	tail bool // show the last line as lines are added, until the user scrolls up
	away bool // the user has scrolled up
}

func (s *scroller) move(key string, n, height int) bool {
	if s.tail && !s.away {
		s.top = max(0, n-height)
	}
	l := list{cursor: s.top}
	if key == "G" || key == "end" {
		l.cursor = n - height
	} else if !l.move(key, n, height) {
		return false
	}
	s.top = max(0, min(l.cursor, n-height))
	s.away = s.top < n-height
	return true
}

func (s *scroller) window(lines []string, height int) []string {
	if s.tail && !s.away {
		s.top = len(lines)
	}
	s.top = max(0, min(s.top, len(lines)-height))
	return lines[s.top:min(len(lines), s.top+max(height, 0))]
}

// fits reports whether one of the texts contains the filter, ignoring case.
func fits(filter string, texts ...string) bool {
	if filter == "" {
		return true
	}
	filter = strings.ToLower(filter)
	for _, t := range texts {
		if strings.Contains(strings.ToLower(t), filter) {
			return true
		}
	}
	return false
}
