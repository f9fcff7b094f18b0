package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// text returns the current text of a note; ok is false if there is no such note. s.mu must be
// held.
func (s *scenario) text(p string) (text string, ok bool) {
	switch p {
	case clockNote:
		now := s.now().UTC()
		text = fmt.Sprintf("# Clock\n\n- time: %s\n- up: %s\n- tick: %d\n", now.Format(time.RFC3339), now.Sub(s.began).Round(time.Second), s.tick)
	case guideNote:
		text = "---\ntags: [demo]\n---\n# Guide to the demo\n\nThis note gains and loses lines while you watch. See [[tasks]] and [[clock]].\n\n## Tips\n\n" +
			strings.Join(s.tips, "\n") + "\n"
	case tasksNote:
		var b strings.Builder
		b.WriteString("# Tasks\n\n#demo/tasks\n\n")
		for _, task := range []string{"answer the mail", "read the guide", "water the plants"} {
			box := " "
			if s.tasks[task] {
				box = "x"
			}
			fmt.Fprintf(&b, "- [%s] %s\n", box, task)
		}
		text = b.String()
	default:
		i := slices.IndexFunc(s.mail, func(m *message) bool { return m.path() == p })
		if i < 0 {
			return "", false
		}
		m := s.mail[i]
		state := "new"
		if m.read {
			state = "read"
		}
		text = fmt.Sprintf("---\nfrom: %s\ntags: [inbox/%s]\n---\n# %s\n\nSee [[guide]].\n", m.from, state, m.subject)
	}
	if n := s.touches[p]; n > 0 {
		text += fmt.Sprintf("\nTouched %d times.\n", n)
	}
	return text, true
}
