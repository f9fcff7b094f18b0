package cli

import (
	"testing"
)

func TestSafeWord(t *testing.T) {
	for word, want := range map[string]bool{
		"docs": true, "read_note": true, "vault://note/{+path}": true, "file:///a%20b?x=1": true, "unit=metric": true,
		"résumé": true, "a,b": true, "vault://recent?mode=full": true, "a@b:c/d.e*f[g]": true,
		"": false, "a b": false, "a\tb": false, "a\u00a0b": false, "a\u202eb": false, "a$b": false, "`a`": false, "a(b)": false,
		"a;b": false, "a&b": false, "a|b": false, "a<b": false, "a>b": false, `a\b`: false, "a'b": false, `a"b`: false, "!a": false,
		"-a": false, "--out=x": false, "~a": false, "#a": false, "=a": false, "_activeHelp_ x": false,
		"{a,b}": false, "{1..9999999}": false,
	} {
		if got := safeWord(word); got != want {
			t.Errorf("%q is safe: %t", word, got)
		}
	}
}
