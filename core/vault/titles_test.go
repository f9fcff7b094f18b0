package vault

import "testing"

// The title of a note may look like a number or a date, and blanks may follow the delimiters of its
// frontmatter.
func TestTitles(t *testing.T) {
	t.Parallel()
	m := newMarkdown()
	for src, want := range map[string]string{
		"---\ntitle: 1984\n---\n# Heading":          "1984",
		"---\ntitle: 1.5\n---\n# Heading":           "1.5",
		"---\ntitle: true\n---\n# Heading":          "true",
		"---\ntitle: 2024-05-06\n---\n# Heading":    "2024-05-06",
		"---\ntitle: [1984]\n---\n# Heading":        "Heading",
		"---\ntitle:\n---\n# Heading":               "Heading",
		"--- \ntitle: Blank\n---\t\n# Heading":      "Blank",
		"--- \r\ntitle: Blank\r\n--- \r\n# Heading": "Blank",
		"+++ \ntitle = \"T\"\n+++  \n# Heading":     "T",
		"+++\ntitle = 7\n+++\n":                     "7",
		"--- x\ntitle: No\n---\n":                   "note",
	} {
		if f := m.parse("d/note.md", []byte(src)); f.title != want {
			t.Errorf("%q has the title %q, want %q", src, f.title, want)
		}
	}
}
