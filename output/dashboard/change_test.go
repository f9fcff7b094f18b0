package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/internal/browsertest"
)

// wire returns an event as the feed sends it.
func wire(t *testing.T, e event.Event) string {
	t.Helper()
	data, err := json.Marshal(&e)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("id: %s\ndata: %s\n\n", e.ID, event.Described(data))
}

// versions is a dashboard over a log with three versions of a resource, of which the first has no
// event of its own.
func versions(t *testing.T) (j journal.Log, d *Dashboard, began time.Time) {
	t.Helper()
	j, d, _ = stored(t, fixed(world(2, 60)))
	began = time.Now().Add(-10 * time.Minute).Truncate(time.Millisecond)
	texts := []string{"one\n", "two\n", "# Page 1\n\nfirst line\n"}
	for i, text := range texts {
		j.Contents().Put(catalog.Digest{byte(1), byte(3 - i)}, text) // the last is that of the world
	}
	yes := true
	for i, e := range []event.Event{
		{ServerID: "server-0000", Timestamp: began, Payload: event.SubscriptionActive{Resources: 60, Mode: event.Push}},
		{ServerID: "server-0000", ResourceURI: "file:///00001.md", Timestamp: began.Add(time.Minute), Cause: event.CauseNotify, Payload: event.ResourceUpdated{Changed: &yes, PreviousDigest: catalog.Digest{1, 3}, Digest: catalog.Digest{1, 2}}},
		{ServerID: "server-0000", ResourceURI: "file:///00001.md", Timestamp: began.Add(2 * time.Minute), Cause: event.CauseNotify, Payload: event.ResourceUpdated{Changed: &yes, PreviousDigest: catalog.Digest{1, 2}, Digest: catalog.Digest{1, 1}}},
		{ServerID: "server-0000", Timestamp: began.Add(5 * time.Minute), Payload: event.SubscriptionActive{Resources: 60, Mode: event.Push}}, // a restart
	} {
		e.Seq = uint64(i + 1)
		e.ID = event.FormatID("00000000000000ab", e.Seq)
		if err := j.Append(&e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return j, d, began
}

// TestVersionTimes: every version has the time at which it was first seen: the first one that of
// the first subscription, and the newest one that of its change, not that of a restart.
func TestVersionTimes(t *testing.T) {
	_, d, began := versions(t)
	s := serve(t, d, nil)
	var h eventHistory
	fetch(t, s.URL+"/api/history?server=server-0000&uri="+url.QueryEscape("file:///00001.md"), &h)
	var got []string
	for _, v := range h.Versions {
		if v.ServerID != h.ServerID || v.URI != h.URI {
			t.Errorf("a version of %s %s", v.ServerID, v.URI)
		}
		got = append(got, fmt.Sprint(v.Digest[1], v.Timestamp.Sub(began), v.Text))
	}
	if want := "[1 2m0s true 2 1m0s true 3 0s true]"; fmt.Sprint(got) != want || h.ServerID != "server-0000" || h.URI != "file:///00001.md" {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestRealVersions: a resource with several versions.
func TestRealVersions(t *testing.T) {
	_, d, began := versions(t)
	live := newStream()
	s := serve(t, d, map[string]http.Handler{"GET /events": live})
	page := chromium.Open(t, 1280, 800)
	page.Go(s.URL + "/?server=server-0000&uri=file:///00001.md")
	// A resource opens with its newest change; ‹ and › lead to others, and a row of the
	// history to the difference with the version before.
	t.Run("versions", func(t *testing.T) {
		p := page.In(t)
		shows := func(del, add string) {
			t.Helper()
			p.Until(fmt.Sprintf(`document.querySelector('#detail-body .del .code')?.textContent === %q && document.querySelector('#detail-body .add .code')?.textContent === %q`, del, add))
		}
		shows("two", "# Page 1")
		p.Until(`document.querySelector('#newer').disabled && document.querySelector('#place').textContent === '3 of 3'`)
		p.Click("#older")
		shows("one", "two")
		p.Until(`document.querySelector('#older').disabled && /to=[0-9a-f]+-2/.test(location.search)`)
		p.Run(`document.dispatchEvent(new KeyboardEvent('keydown', { key: ']', bubbles: true }))`)
		shows("two", "# Page 1")
		p.Click("#tab-history")
		p.Until(`[...document.querySelectorAll('.history .counts')].map((e) => e.textContent).join(', ') === '+3 −1, +1 −1'`)
		times := p.String(`[...document.querySelectorAll('.history time')].map((e) => e.title).join(' ')`)
		var want []string
		for _, after := range []time.Duration{2 * time.Minute, time.Minute, 0} {
			want = append(want, began.Add(after).UTC().Format(event.TimeFormat))
		}
		if times != strings.Join(want, " ") {
			t.Errorf("times %s, want %s", times, want)
		}
		p.Until(`[...document.querySelectorAll('.history th')].map((e) => e.textContent).join() === 'Time,Change,Size,How,Digest'`)
		p.Run(`document.querySelectorAll('.history button')[1].click()`)
		shows("one", "two")
		// What the copy button copies.
		p.Run(`navigator.clipboard.writeText = async (text) => { window.copied = text; }`)
		p.Click("#copy")
		p.Until(`window.copied === '-one\n+two\n' && document.querySelector('#copy').textContent === 'Copied'`)
	})
	// The keys of the page, which inputs keep for themselves.
	t.Run("keys", func(t *testing.T) {
		p := page.In(t)
		visit(p, "?server=server-0001")
		press := func(key, more string) {
			t.Helper()
			p.Run(fmt.Sprintf(`(document.activeElement || document).dispatchEvent(new KeyboardEvent('keydown', { key: '%s', bubbles: true, cancelable: true%s }))`, key, more))
		}
		p.Until(`document.querySelectorAll('#feed-list .row').length >= 3 && document.querySelectorAll('#rail-list .row').length >= 2`)
		press("/", "")
		p.Until(`document.activeElement.id === 'rail-filter'`)
		press("?", "")
		if p.String(`String(document.querySelector('#help').open)`) != "false" {
			t.Error("a key of an input is taken from it")
		}
		press("Escape", "")
		press("?", "")
		p.Until(`document.querySelector('#help').open && document.querySelector('#help').innerText.includes('next and previous change')`)
		p.Run(`document.querySelector('#help').close()`)
		chosen := `document.querySelector('#feed-list .row[aria-selected=true]')?.getAttribute('aria-posinset')`
		press("j", "")
		p.Until(chosen + ` === '1'`)
		press("j", "")
		p.Until(chosen + ` === '2' && document.querySelector('#detail-title').textContent === '00001.md'`)
		press("k", "")
		p.Until(chosen + ` === '1'`)
		press("k", ", ctrlKey: true")
		p.Until(`document.querySelector('#jump').open && document.activeElement.id === 'jump-text'`)
		setInput(p, "jump-text", "00042")
		p.Until(`document.querySelectorAll('#jump-list .row').length === 1`)
		press("Enter", "")
		p.Until(`!document.querySelector('#jump').open && document.querySelector('#detail-title').textContent === '00042.md'`)
	})
	// The page opens with the newest change and follows new ones until something is
	// selected.
	t.Run("newest change", func(t *testing.T) {
		p := page.In(t)
		p.Go(s.URL)
		p.Until(`document.querySelector('#detail-title').textContent === '00001.md' && document.querySelectorAll('#detail-body .add').length === 3 && location.search === ''`)
		p.Until(`document.querySelector('#rail-list .row[aria-selected=true]')?.title === 'file:///00001.md'`)
		yes := true
		change := func(seq uint64, n byte) {
			t.Helper()
			live.say <- wire(t, event.Event{ID: event.FormatID("00000000000000ab", seq), Seq: seq, ServerID: "server-0000", ResourceURI: fmt.Sprintf("file:///%05d.md", n), Timestamp: time.Now(),
				Payload: event.ResourceUpdated{Changed: &yes, Digest: catalog.Digest{n, 1}}})
		}
		change(5, 7)
		p.Until(`document.querySelector('#detail-title').textContent === '00007.md'`)
		pick(p, "file:///00003.md")
		p.Until(`document.querySelector('#detail-title').textContent === '00003.md' && document.querySelector('#follow').getAttribute('aria-pressed') === 'false'`)
		change(6, 8)
		p.Until(`document.querySelector('#feed-list .row').textContent.includes('00008.md')`)
		if title := p.Text("#detail-title"); title != "00003.md" {
			t.Errorf("%s is shown, though another resource was selected", title)
		}
		p.Run(`document.dispatchEvent(new KeyboardEvent('keydown', { key: 'f', bubbles: true }))`)
		p.Until(`document.querySelector('#detail-title').textContent === '00008.md'`)
	})
}

// TestRealRailOrder: a server that failed stays in front until it is ready again, and no row moves under
// the mouse.
func TestRealRailOrder(t *testing.T) {
	var now atomic.Pointer[status.Snapshot]
	set := func(states ...event.State) {
		snap := world(4, 1)
		for i, s := range states {
			snap.Servers[i].State, snap.Servers[i].Error, snap.Servers[i].Attempt = s, "", 0
		}
		now.Store(snap)
	}
	set(event.Ready, event.Ready, event.Backoff, event.Connecting)
	s := serve(t, New(Options{Snapshot: now.Load}), nil)
	p := chromium.Open(t, 1280, 800)
	p.Hurry()
	p.Go(s.URL)
	order := func(want string) {
		t.Helper()
		p.Until(fmt.Sprintf(`[...document.querySelectorAll('#rail-list .row .name')].map((e) => e.textContent.at(-1)).join('') === %q`, want))
	}
	order("2013")
	set(event.Ready, event.Ready, event.Connecting, event.Ready) // it connects once more
	p.Until(`document.querySelector('#rail-list .row').textContent.includes('connecting')`)
	order("2013")
	hover(p, "pointerenter")
	set(event.Backoff, event.Ready, event.Ready, event.Ready)
	p.Until(`document.querySelectorAll('#rail-list .row')[1].textContent.includes('retrying')`) // what rows say changes
	order("2013")
	hover(p, "pointerleave")
	order("0123")
}

func hover(p browsertest.Tab, what string) {
	p.T.Helper()
	p.Run(`document.querySelector('#rail-list').dispatchEvent(new PointerEvent('` + what + `', { pointerType: 'mouse' }))`)
}

// TestWordsOfStates: the page has no words of its own for states.
func TestWordsOfStates(t *testing.T) {
	var st overview
	fetch(t, serve(t, New(Options{Snapshot: fixed(world(2, 1))}), nil).URL+"/api/status", &st)
	if st.Words[string(event.NeedsAuth)] != event.NeedsAuth.Words() || len(st.Words) < 10 {
		t.Errorf("%v", st.Words)
	}
}
