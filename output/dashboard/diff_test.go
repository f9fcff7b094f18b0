package dashboard

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/status"
)

// TestRealDiffOfLongTexts: texts of any number of lines can be compared; the page shows a
// limited number of lines and counts the others.
func TestRealDiffOfLongTexts(t *testing.T) {
	const n, uri = 150_000, "file:///00001.md"
	var now atomic.Pointer[status.Snapshot]
	now.Store(world(12, 60))
	j, d, store := stored(t, now.Load)
	live := newStream()
	s := serve(t, d, map[string]http.Handler{"GET /events": live})
	var was catalog.Digest
	set := func(text string) {
		t.Helper()
		snap := world(12, 60)
		r := &snap.Servers[0].Resources[1]
		r.Text, r.Size, r.Digest[1] = &text, int64(len(text)), byte(len(text)%251)
		j.Contents().Put(r.Digest, text)
		if !was.IsZero() {
			store("server-0000", uri, event.ResourceUpdated{Digest: r.Digest, PreviousDigest: was})
		}
		if err := j.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		was = r.Digest
		now.Store(snap)
	}
	set(strings.Repeat("\n", n))
	lines := strings.Repeat("one\ntwo\n", n/2)
	set(lines)
	p := chromium.Open(t, 1280, 800)
	p.Go(s.URL + "/?server=server-0000&tab=diff&uri=" + uri)
	p.Until(`document.querySelector('#detail-body').textContent.includes('149000 more lines of the new text')`) // comparing all pairs would take too long
	p.Until(`document.querySelectorAll('#detail-body .del').length === 1000 && document.querySelectorAll('#detail-body .add').length === 1000`)
	set("one\n" + lines + "two\n" + "three\n" + lines)
	live.say <- "id: ab-9\ndata: {\"id\":\"ab-9\",\"type\":\"resource.updated\",\"serverId\":\"server-0000\",\"resourceUri\":\"" + uri + "\",\"timestamp\":\"2026-11-20T19:37:25.000Z\"}\n\n"
	p.Until(`document.querySelector('#detail-body').textContent.includes('148003 more lines of the new text')`)
	p.Until(`document.querySelectorAll('#detail-body .diff > div').length < 2100`)
}

// TestRealWhatDiffers: context, signs, folded lines, marked words and the numbers of lines.
func TestRealWhatDiffers(t *testing.T) {
	s := serve(t, New(Options{Snapshot: fixed(world(2, 1))}), nil)
	p := chromium.Open(t, 800, 600)
	p.Go(s.URL)
	for _, c := range []struct{ from, to, want string }{
		{"a\nb\nc\n", "a\nB\nc\n", " 1a -2b +2B  3c"},
		{"", "a\nb\n", "+1a +2b"},
		{"a\n", "", "-1a"},
		{"say hello now", "say good bye now", "-1say [hello] now +1say [good] [bye ]now"},
		{"1\nx\n2\n3\n4\n5\n6\n7\n8\n9\n10\ny\n", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n", " 11 -2x  22  33  44 …3 equal lines  88  99  1010 -12y"},
	} {
		got := p.String(`import('/assets/diff.js').then(({ diff }) => diff(` + quote(c.from) + `, ` + quote(c.to) + `).map((l) => l.sign + l.number + (l.parts ? l.parts.map(([t, d]) => d ? '[' + t + ']' : t).join('') : l.text)).join(' '))`)
		if strings.ReplaceAll(strings.ReplaceAll(got, "[b]", "b"), "[B]", "B") != c.want {
			t.Errorf("%q to %q: %q, want %q", c.from, c.to, got, c.want)
		}
	}
	if got := p.String(`import('/assets/diff.js').then(({ rewritten }) => rewritten('a\nb\nc\nd\n', 'a\r\nb\r\nc\r\nd\r\n') + '/' + rewritten('a\nb\nc\nd\n', 'e\nf\ng\nh\n'))`); !strings.HasPrefix(got, "/The text") {
		t.Error(got)
	}
	if got := p.String(`import('/assets/diff.js').then(({ countLines }) => JSON.stringify(countLines('a\nb\nc\n', 'a\nx\ny\nc\n')))`); got != `{"added":2,"removed":1}` {
		t.Error(got)
	}
}

func quote(s string) string { return "`" + s + "`" }
