package session

import "testing"

// A secret is redacted although colours or invisible characters are within it; other texts keep theirs.
func TestRedactorOfColouredSecrets(t *testing.T) {
	r := newRedactor([]string{"hunter2-Zq81"})
	for in, want := range map[string]string{
		"key hunt\x1b[31mer2\x1b[0m-Zq81!":              "key [redacted]!",
		"\x1b[1;32mh\x1b[0mu\x1b[4mnter2-Zq8\u009b33m1": "[redacted]",
		"key hunter2\u200b-Z\u2060q81":                  "key [redacted]",
		"hunter2\x1b]8;;https://example.com\x1b\\-Zq81": "[redacted]",
		"hunter2\x1b]0;title\a-Zq\x0081":                "[redacted]",
		"\x1b[31mred\x1b[0m":                            `\x1b[31mred\x1b[0m`,
		"hunter2\xff-Zq81":                              "[redacted]",
		"hunter2 -Zq81 \x1b[31":                         `hunter2 -Zq81 \x1b[31`,
	} {
		if got := r.text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
