package vault

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
)

// page returns a page of recent that is not listed.
func page(i int) (uri string, t target) {
	t = target{kind: kindRecent, limit: defaultLimit, offset: i + 1}
	return t.uri(), t
}

// TestOneClientCannotExhaustExtras: a client with the maximum of subscriptions leaves
// room for others, and its URIs are pruned after it left, even if nothing changes.
func TestOneClientCannotExhaustExtras(t *testing.T) {
	t.Parallel()
	var v *Vault
	m := subscriptions.New(subscriptions.Options{Subscribable: func(uri string) bool { return v.Subscribable(uri) }})
	v, err := Open(quick(vaultOf(t, map[string]string{"n.md": "x"})))
	must(t, err)
	defer v.Close()
	v.extras.listen(m.Subscribed)
	hog, err := m.Open(subscriptions.Lists{})
	must(t, err)
	for i := 0; ; i++ {
		uri, _ := page(i)
		if err = hog.Add(uri); err != nil {
			break
		}
	}
	if !strings.Contains(err.Error(), "per client") {
		t.Errorf("the first limit to be reached is not that of a client: %v", err)
	}
	other, err := m.Open(subscriptions.Lists{})
	must(t, err)
	must(t, other.Add("vault://recent?mode=full"))
	hog.Close()
	later := time.Now().Add(2 * extraGrace)
	if uri, t0 := page(-1); !v.extras.add(uri, t0, later) {
		t.Error("refused")
	}
	if n := len(v.extras.asked); n != 2 || len(v.extras.forms) != n {
		t.Errorf("%d URIs of %d targets remain, want 2", n, len(v.extras.forms))
	}
	if got := v.extras.of(target{kind: kindRecent, limit: defaultLimit, full: true}); len(got) != 1 {
		t.Errorf("what is subscribed to was dropped: %q", got)
	}
}

// TestExtrasAreBounded: unsubscribed URIs are limited in number and pruned.
func TestExtrasAreBounded(t *testing.T) {
	t.Parallel()
	var x extras
	now := time.Now()
	fill := func(from int, want bool) {
		t.Helper()
		for i := range maxExtras {
			if uri, to := page(from + i); x.add(uri, to, now) != want {
				t.Fatalf("%d: taken is not %v", i, want)
			}
		}
	}
	fill(0, true)
	fill(maxExtras, false)
	if uri, to := page(7); !x.add(uri, to, now) {
		t.Error("what is known is refused")
	}
	now = now.Add(time.Hour)
	fill(maxExtras, false) // nobody can say what is subscribed to before Run
	subscribed, _ := page(7)
	x.listen(func(uri string) bool { return uri == subscribed })
	uri, to := page(maxExtras)
	if !x.add(uri, to, now) {
		t.Error("there is room, and it was not found")
	}
	if len(x.asked) != 2 || len(x.forms) != 2 {
		t.Errorf("%d URIs of %d targets remain, want 2", len(x.asked), len(x.forms))
	}
	now = now.Add(extraGrace)
	x.prune(now)
	if len(x.of(to)) != 1 {
		t.Error("what was asked for a moment ago is forgotten")
	}
	now = now.Add(pruneSpacing)
	x.prune(now)
	if len(x.of(to)) != 0 || len(x.asked) != 1 || len(x.forms) != 1 {
		t.Error("an unsubscribed URI remains")
	}
}

// TestSpellingsShareOneTarget: a target is compared once for all of its spellings.
func TestSpellingsShareOneTarget(t *testing.T) {
	t.Parallel()
	e := open(t, quick(vaultOf(t, map[string]string{"n.md": "x"})), "nobody")
	for i := range 3 {
		for _, uri := range []string{"vault://note/%6e.md", fmt.Sprintf("vault://recent?limit=20&offset=%d", i), "vault://recent?mode=preview"} {
			if !e.Subscribable(uri) {
				t.Errorf("%s cannot be subscribed to", uri)
			}
		}
	}
	for to, want := range map[target]int{{kind: kindNote, path: "n.md"}: 1, firstPage(): 2, {kind: kindRecent, limit: 20, offset: 2}: 1} {
		if got := e.extras.of(to); len(got) != want {
			t.Errorf("%+v: %q, want %d forms", to, got, want)
		}
	}
	if n := len(e.extras.pages()); n != 3 {
		t.Errorf("%d pages, want 3", n)
	}
}
