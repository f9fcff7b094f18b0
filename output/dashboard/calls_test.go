package dashboard

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/calls"
)

// someCalls returns a record of calls: many ok ones of one tool, and one of each other outcome.
func someCalls() *calls.Memory {
	m := new(calls.Memory)
	for i := range 40 {
		m.Add(calls.Call{Client: "claude-code", Session: "0a1b2c3d", ServerID: "server-0000", Tool: "search_issues", Outcome: calls.OK, Duration: time.Duration(i+1) * time.Millisecond, Bytes: 1234})
	}
	m.Add(calls.Call{Client: "cursor\u202e", Session: "4e5f6071", ServerID: "server-0001", Tool: "<b>delete", Outcome: calls.ToolError, Duration: 1500 * time.Millisecond, Bytes: 99})
	m.Add(calls.Call{Client: "zed", Session: "82930415", Tool: "nothing", Outcome: calls.Error, Code: -32602})
	return m
}

func TestCallsOfTheAPI(t *testing.T) {
	t.Parallel()
	s := serve(t, New(Options{Snapshot: fixed(world(2, 2)), Calls: someCalls().Read}), nil)
	for query, want := range map[string]int{"": 42, "?newest=5": 5, "?failed=1": 2, "?client=zed": 1, "?server=server-0001": 1, "?newest=5&tools=1": 5} {
		var got recentCalls
		if code := fetch(t, s.URL+"/api/calls"+query, &got); code != http.StatusOK || len(got.Calls) != want || (got.Tools != nil) != strings.Contains(query, "tools") {
			t.Errorf("%s: %d, %d calls, %v", query, code, len(got.Calls), got.Tools)
		}
		if got.Tools != nil && (len(got.Tools) != 3 || got.Tools[0].P95 != 38) {
			t.Errorf("%+v", got.Tools)
		}
	}
	var refused map[string]string
	if code := fetch(t, s.URL+"/api/calls?after=x", &refused); code != http.StatusBadRequest {
		t.Errorf("%d %v", code, refused)
	}
	broken := serve(t, New(Options{Snapshot: fixed(world(2, 2)), Calls: func(context.Context, calls.Query) ([]calls.Call, error) { return nil, context.Canceled }}), nil)
	if code := fetch(t, broken.URL+"/api/calls", &refused); code != http.StatusServiceUnavailable {
		t.Errorf("%d %v", code, refused)
	}
}

// The calls are beside the feed, as text, and lead to the server.
func TestRealCallsBesideTheFeed(t *testing.T) {
	m := someCalls()
	s := serve(t, New(Options{Snapshot: fixed(world(3, 3)), Calls: m.Read}), map[string]http.Handler{"GET /events": newStream()})
	p := chromium.Open(t, 1280, 800)
	p.Hurry()
	p.Go(s.URL)
	p.Click("#open-calls")
	p.Until(`document.querySelectorAll('#calls-list .row').length > 3 && document.querySelectorAll('#calls-tools tr').length === 4`)
	if list := p.Text("#calls-list"); !strings.Contains(list, "<b>delete") || strings.Contains(list, "\u202e") {
		t.Error(list)
	}
	m.Add(calls.Call{ServerID: "server-0000", Tool: "later", Outcome: calls.OK})
	p.Until(`document.querySelector('#calls-list').innerText.includes('later')`)
	readable(p, "feed")
	if bad := p.Axe(); bad != "" {
		t.Error(bad)
	}
	p.Run(`document.querySelector('#feed-filter').value = 'delete'; document.querySelector('#feed-filter').oninput()`)
	p.Until(`document.querySelectorAll('#calls-list .row').length === 1`)
	release := p.Press("#calls-list .row")
	p.Run(`loaded = 0; new PerformanceObserver((l) => { loaded += l.getEntries().filter((e) => e.name.includes('/api/calls')).length }).observe({ type: 'resource' })`)
	p.Until(`loaded > 1`) // the list is loaded again before the button is released
	release()
	p.Until(`location.search.includes('server=server-0001')`)
	p.Click("#open-calls")
	p.Until(`!document.querySelector('#calls').checkVisibility()`)
}
