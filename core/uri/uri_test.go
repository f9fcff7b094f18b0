package uri

import "testing"

func TestNormal(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"file:///caf%C3%A9%20a.md", "file:///caf%c3%a9%20a.md", "file:///café a.md", "FILE:///%63af%C3%A9%20a.md"},
		{"https://example.com/", "https://Example.com", "https://example.com:443", "HTTPS://EXAMPLE.COM:/"},
		{"https://example.com/?q=1", "https://Example.com?q=1"},
		{"https://u:P@example.com/A", "https://u:P@EXAMPLE.com/A"},
		{"note:a%2Fb", "NOTE:a%2fb"},
		{"vault://note/a~b", "vault://note/a%7Eb"},
		{"no uri", "no%20uri"},
	} {
		for _, s := range same[1:] {
			if got, want := Normal(s), Normal(same[0]); got != want {
				t.Errorf("%q: %q, want %q", s, got, want)
			}
		}
		if got := Normal(Normal(same[0])); got != Normal(same[0]) {
			t.Errorf("the normal form of %q is not its own: %q", same[0], got)
		}
	}
	for _, different := range [][2]string{
		{"note:a%2Fb", "note:a/b"}, {"https://example.com/a", "https://example.com/A"}, {"https://example.com/%2561", "https://example.com/a"},
		{"x://h:80/", "x://h/"}, {"note:a#b", "note:a%23b"}, {"https://example.com/a", "https://example.com/a/"},
	} {
		if Normal(different[0]) == Normal(different[1]) {
			t.Errorf("%q and %q have one form: %q", different[0], different[1], Normal(different[0]))
		}
	}
}
