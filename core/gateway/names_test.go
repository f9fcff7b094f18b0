package gateway

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNames(t *testing.T) {
	t.Parallel()
	several := newNaming([]string{"docs", "docs_v2", "my_server", "a b", "x"}, nil)
	for _, c := range []struct{ server, name, want string }{
		{"docs", "search", "docs_search"},
		{"docs", "v2_search", "docs_v2_search"},
		{"docs_v2", "search", "docs_v2_search_074a2d02"}, // "docs" is there, too
		{"my_server", "read.file", "my_server_read.file"},
		{"x", "ünï/code", "x__n__code_205feb52"},
		{"x", "y_00112233", "x_y_00112233_dcdb2e8b"}, // ends as if hashed
		{"x", strings.Repeat("n", 62), "x_" + strings.Repeat("n", 62)},
		{"x", strings.Repeat("n", 63), "x_" + strings.Repeat("n", 53) + "_f0bdcb35"},
	} {
		if got := several.export(c.server, c.name); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.name, c.server, got, c.want)
		}
	}
	one := newNaming([]string{"docs"}, nil)
	if got := one.export("docs", "any name/at all"); got != "any name/at all" {
		t.Errorf("of one server: %q", got)
	}
	own := map[string]bool{"changes_since": true}
	for _, c := range []struct {
		servers []string
		name    string
		want    string
	}{
		{[]string{"docs"}, "changes_since", "docs_changes_since_362d38ba"},
		{[]string{"docs"}, "docs_changes_since", "docs_changes_since"},
		{[]string{"changes", "docs"}, "since", "changes_since_be5deea2"},
		{[]string{"changes", "docs"}, "until", "changes_until"},
	} {
		if got := newNaming(c.servers, own).export(c.servers[0], c.name); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.name, c.servers, got, c.want)
		}
	}
}

// Names are unique, valid, and depend only on the set of servers. The alphabets are small
// so that every possible collision occurs.
func TestNamesAreUniqueAndStable(t *testing.T) {
	t.Parallel()
	id := rapid.OneOf(rapid.StringMatching(`[a_]{1,4}`), rapid.StringMatching(`[ab_.é ]{1,3}`),
		rapid.StringMatching(`a{50,66}`))
	name := rapid.OneOf(rapid.StringMatching(`[a_]{1,5}`), rapid.StringMatching(`[ab_é/]{1,3}`),
		rapid.StringMatching(`a{1,2}_[0-9a-f]{8}`), rapid.StringMatching(`a{40,70}b?`))
	rapid.Check(t, func(t *rapid.T) {
		servers := rapid.SliceOfNDistinct(id, 2, 6, rapid.ID).Draw(t, "servers")
		names := rapid.SliceOfNDistinct(name, 1, 8, rapid.ID).Draw(t, "names")
		n := newNaming(servers, nil)
		shuffled := newNaming(rapid.Permutation(servers).Draw(t, "order"), nil)
		whose := map[string][2]string{}
		add := func(s, name string) string {
			out := n.export(s, name)
			if other, taken := whose[out]; taken && other != [2]string{s, name} {
				t.Fatalf("%q: both %q and %q", out, other, [2]string{s, name})
			}
			whose[out] = [2]string{s, name}
			if len(out) > maxExported || !isName(out) {
				t.Fatalf("%q is no name", out)
			}
			if again := shuffled.export(s, name); again != out {
				t.Fatalf("%q and, in another order, %q", out, again)
			}
			return out
		}
		for _, s := range servers {
			for _, name := range names {
				out := add(s, name)
				for _, other := range servers { // what would have to be called so to take it
					if rest, ok := strings.CutPrefix(out, other+"_"); ok && rest != "" {
						add(other, rest)
					}
				}
			}
		}
	})
}

func TestQualifiedURIsAreReversible(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		server := rapid.StringN(1, 20, -1).Draw(t, "server")
		uri := rapid.StringN(1, 40, -1).Draw(t, "uri")
		q := qualify(server, uri)
		s, u, ok := unqualify(q)
		if !ok || s != server || u != uri {
			t.Fatalf("%q: %q %q %t", q, s, u, ok)
		}
		if s, u, ok := unqualify(qualify("x", q)); !ok || s != "x" || u != q {
			t.Fatalf("nested: %q %q %t", s, u, ok)
		}
	})
	for _, bad := range []string{"", "file:///a", "mcptrack://server/", "mcptrack://server/a", "mcptrack://server/a/", "mcptrack://server//u", "mcptrack://server/%zz/u"} {
		if s, u, ok := unqualify(bad); ok {
			t.Errorf("%q: %q %q", bad, s, u)
		}
	}
	if got := qualify("my docs", "file:///{path}"); got != "mcptrack://server/my%20docs/file:///{path}" {
		t.Error(got)
	}
	if got := qualify("..", "u"); got != "mcptrack://server/%2E%2E/u" {
		t.Error(got)
	}
}
