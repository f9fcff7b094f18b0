package dashboard

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// stored opens a log with the events of two servers, and a dashboard over it.
func stored(t *testing.T, snapshot func() *status.Snapshot) (journal.Log, *Dashboard, func(server, uri string, p event.Payload)) {
	t.Helper()
	j := journal.NewMemory(journal.MemoryOptions{KeepContent: 16 << 20})
	d := New(Options{Snapshot: snapshot, Events: j})
	var seq uint64
	store := func(server, uri string, p event.Payload) {
		t.Helper()
		seq++
		e := &event.Event{ID: event.FormatID("00000000000000ab", seq), Seq: seq, ServerID: server, ResourceURI: uri, Timestamp: time.Now(), Payload: p}
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	return j, d, store
}

func types(t *testing.T, h eventHistory) (names []string) {
	t.Helper()
	for _, data := range h.Events {
		var e event.Event
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatal(err)
		}
		names = append(names, string(e.Type()))
	}
	return names
}

// TestHistory: the stored events of a resource and of a server are served, newest
// first, and so are old texts.
func TestHistory(t *testing.T) {
	j, d, store := stored(t, fixed(world(12, 60)))
	s := serve(t, d, nil)
	const uri = "file:///00001.md"
	old, text := "old text", "text"
	store("server-0000", "", event.ServerState{State: event.Ready})
	store("server-0000", uri, event.ResourceUpdated{Digest: catalog.Digest{1}, PreviousDigest: catalog.Digest{9}})
	store("server-0000", uri, event.ResourceUpdated{Digest: catalog.Digest{2}, PreviousDigest: catalog.Digest{1}})
	store("server-0000", "file:///00002.md", event.ResourceUpdated{Digest: catalog.Digest{3}})
	store("server-0001", "", event.ServerState{State: event.Backoff})

	for digest, text := range map[catalog.Digest]string{{9}: old, {1}: text, {2}: text} {
		j.Contents().Put(digest, text)
	}
	if err := j.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}

	var h eventHistory
	fetch(t, s.URL+"/api/history?server=server-0000&uri="+url.QueryEscape(uri), &h)
	if len(h.Events) != 2 || !strings.Contains(string(h.Events[0]), "02000000") || h.More {
		t.Errorf("resource: %s", h.Events)
	}
	if strings.Contains(string(h.Events[0]), `"description"`) {
		t.Errorf("nobody asked for the description: %s", h.Events[0])
	}
	h = eventHistory{}
	fetch(t, s.URL+"/api/history?described=1&server=server-0000&uri="+url.QueryEscape(uri), &h)
	if len(h.Events) != 2 || !strings.Contains(string(h.Events[0]), `"description":{"verb":"updated"`) || len(h.Versions) != 3 {
		t.Errorf("described: %s, %d versions", h.Events, len(h.Versions))
	}
	h = eventHistory{}
	fetch(t, s.URL+"/api/history?server=server-0000&limit=1&uri="+url.QueryEscape(uri), &h)
	if len(h.Events) != 1 || !h.More {
		t.Errorf("limit 1: %s, more %t", h.Events, h.More)
	}
	h = eventHistory{}
	fetch(t, s.URL+"/api/history?server=server-0000", &h)
	if got := types(t, h); fmt.Sprint(got) != "[server.state]" {
		t.Errorf("server: %v", got)
	}
	h = eventHistory{}
	fetch(t, s.URL+"/api/history", &h)
	if got := types(t, h); len(got) != 5 {
		t.Errorf("all: %v", got)
	}
	address := s.URL + "/api/servers/server-0000/content?uri=" + url.QueryEscape(uri) + "&digest="
	for digest, want := range map[catalog.Digest]string{{9}: old, {1}: text, {2}: text} {
		var c content
		fetch(t, address+digest.String(), &c)
		if c.Text == nil || *c.Text != want {
			t.Errorf("version %s: %+v", digest, c)
		}
	}
	h = eventHistory{}
	fetch(t, s.URL+"/api/history?server=server-0000&uri="+url.QueryEscape(uri), &h)
	if len(h.Versions) == 0 || slices.ContainsFunc(h.Versions, func(v history.Version) bool { return !v.Text }) {
		t.Errorf("versions: %+v", h.Versions)
	}
	var refusal map[string]string
	if code := fetch(t, address+catalog.Digest{7}.String(), &refusal); code != http.StatusNotFound {
		t.Errorf("unknown version: %d", code)
	}
}

// The events that tell the current state of a server are its newest state, what is followed in that session,
// and what differs from the lock, however many others came later.
func TestStanding(t *testing.T) {
	j, d, store := stored(t, fixed(world(12, 60)))
	s := serve(t, d, nil)
	standing := func() string {
		t.Helper()
		var events []struct {
			Type event.Type
			Item string
		}
		fetch(t, s.URL+"/api/servers/a/events", &events)
		return fmt.Sprint(events)
	}
	drift := func(item string, change event.DriftState) {
		store("a", "", event.LockDrift{Section: "tools", Item: item, Change: change})
	}
	store("a", "", event.ServerState{State: event.Connecting})
	store("a", "", event.ServerState{State: event.Ready})
	store("b", "", event.ServerState{State: event.Ready})
	drift("x", event.DriftChanged)
	drift("y", event.DriftChanged)
	store("a", "", event.SubscriptionActive{Resources: 1})
	for range maxHistory {
		if err := j.Append(&event.Event{ServerID: "a", Timestamp: time.Now(), Payload: event.ListChanged{List: catalog.Tools}}); err != nil {
			t.Fatal(err)
		}
	}
	drift("y", event.DriftResolved)
	if got := standing(); got != "[{server.state } {lock.drift x} {subscription.active }]" {
		t.Error(got)
	}
	store("a", "", event.ServerState{State: event.Connecting})
	if got := standing(); got != "[{lock.drift x} {server.state }]" {
		t.Error("of another session: ", got)
	}
}

// TestActivity: events are counted over the whole log, also
// those stored after the first request.
func TestActivity(t *testing.T) {
	_, d, store := stored(t, fixed(world(12, 60)))
	s := serve(t, d, nil)
	total := func(query string) (n uint32) {
		t.Helper()
		var c counts
		fetch(t, s.URL+"/api/activity?"+query, &c)
		if len(c.Events) == 0 || len(c.Events) > maxPoints || c.Step <= 0 {
			t.Fatalf("%s: %+v", query, c)
		}
		for _, events := range c.Events {
			n += events
		}
		return n
	}
	for range 3 {
		store("server-0000", "file:///a", event.ResourceUpdated{Digest: catalog.Digest{1}})
	}
	store("server-0001", "", event.ServerState{State: event.Ready})
	for range 2 { // the second time nothing is counted twice
		for query, want := range map[string]uint32{"range=300": 4, "range=3600": 4, "range=86400": 4, "range=0": 4} {
			if got := total(query); got != want {
				t.Errorf("%s: %d events, want %d", query, got, want)
			}
		}
	}
	store("server-0000", "file:///a", event.ResourceUpdated{Digest: catalog.Digest{2}})
	if got := total("range=300"); got != 5 {
		t.Errorf("after one more: %d", got)
	}
}

// TestContentIsRead: the text of a resource that did not change since the start is read
// from the server.
func TestContentIsRead(t *testing.T) {
	tr, server := gallery(t, map[string]sessiontest.Resource{"doc:///a.md": {Text: "# text", MimeType: "text/markdown"}, "doc:///b": {Blob: []byte{1, 2}, MimeType: "application/octet-stream"}})
	s := serve(t, New(Options{Snapshot: tr.Snapshot, Read: reads(tr)}), nil)
	before := server.Count("resources/read")
	for range 3 {
		var c content
		fetch(t, s.URL+"/api/servers/gallery/content?uri="+url.QueryEscape("doc:///a.md"), &c)
		if c.Text == nil || *c.Text != "# text" || c.MimeType != "text/markdown" || c.Size != 6 {
			t.Errorf("%+v", c)
		}
	}
	if n := server.Count("resources/read") - before; n > 1 {
		t.Errorf("%d reads", n)
	}
	var c content
	fetch(t, s.URL+"/api/servers/gallery/content?uri="+url.QueryEscape("doc:///b"), &c)
	if c.Text != nil {
		t.Errorf("binary content: %q", *c.Text)
	}
}

// TestImageDimensions: an image that decodes to gigabytes is refused.
func TestImageDimensions(t *testing.T) {
	png := func(width, height uint32) []byte {
		header := binary.BigEndian.AppendUint32([]byte("IHDR"), width)
		header = append(binary.BigEndian.AppendUint32(header, height), 8, 0, 0, 0, 0)
		b := binary.BigEndian.AppendUint32([]byte("\x89PNG\r\n\x1a\n"), uint32(len(header)-4))
		return binary.BigEndian.AppendUint32(append(b, header...), crc32.ChecksumIEEE(header))
	}
	tr, _ := gallery(t, map[string]sessiontest.Resource{
		"art:///ok.png":     {Blob: png(5000, 5000), MimeType: "image/png"},
		"art:///bomb.png":   {Blob: png(60000, 60000), MimeType: "image/png"},
		"art:///broken.gif": {Blob: []byte("GIF89a"), MimeType: "image/gif"},
	})
	s := serve(t, New(Options{Snapshot: tr.Snapshot, Read: reads(tr)}), nil)
	for name, want := range map[string]int{"ok.png": 200, "bomb.png": 415, "broken.gif": 415} {
		r, err := http.Get(s.URL + "/api/servers/gallery/image?uri=art:///" + name)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s: %s", name, r.Status)
		}
	}
}

// TestServerOfAnotherProcess: a server that another process follows has a page, without
// descriptors.
func TestServerOfAnotherProcess(t *testing.T) {
	other := status.Summary{ID: "other", State: event.Ready, FollowedBy: "node-2"}
	s := serve(t, New(Options{Snapshot: fixed(world(12, 60)), Servers: func() []status.Summary { return []status.Summary{other} }}), nil)
	var got serverDetail
	if code := fetch(t, s.URL+"/api/servers/other", &got); code != http.StatusOK || got.FollowedBy != "node-2" || got.ToolList == nil || len(got.ToolList) != 0 {
		t.Errorf("%d %+v", code, got)
	}
	var log serverLog
	if code := fetch(t, s.URL+"/api/servers/other/log", &log); code != http.StatusOK || log.FollowedBy != "node-2" || log.Lines == nil {
		t.Errorf("%d %+v", code, log)
	}
	var refusal map[string]string
	if code := fetch(t, s.URL+"/api/servers/nobody/log", &refusal); code != http.StatusNotFound {
		t.Errorf("log of an unknown server: %d", code)
	}
	if code := fetch(t, s.URL+"/api/servers/nobody", &refusal); code != http.StatusNotFound {
		t.Errorf("unknown server: %d", code)
	}
}

// What is stored of the resources of such a server is served by every process; a text that
// is not stored is refused with words.
func TestResourcesOfAnotherProcess(t *testing.T) {
	j, _, _ := stored(t, fixed(world(12, 60)))
	digest := catalog.Digest{1}
	if err := j.Remember(journal.ResourceID{ServerID: "other", URI: "file:///a.md"}, journal.State{Digest: digest, Size: 3, MimeType: "text/plain", When: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := j.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := status.Summary{ID: "other", State: event.Ready, FollowedBy: "node-2"}
	s := serve(t, New(Options{Snapshot: fixed(world(12, 60)), Events: j, Servers: func() []status.Summary { return []status.Summary{other} }}), nil)
	var got []resource
	if code := fetch(t, s.URL+"/api/servers/other/resources", &got); code != http.StatusOK || len(got) != 1 || got[0].URI != "file:///a.md" || got[0].Digest != digest.String() || got[0].Size != 3 {
		t.Errorf("%d %+v", code, got)
	}
	var refusal map[string]string
	for path, want := range map[string]string{
		"other/content?uri=file:///a.md":  "node-2",
		"other/content?uri=file:///b.md":  "not followed",
		"nobody/resources":                "no such server",
		"nobody/content?uri=file:///a.md": "no such server",
	} {
		if code := fetch(t, s.URL+"/api/servers/"+path, &refusal); code != http.StatusNotFound || !strings.Contains(refusal["error"], want) {
			t.Errorf("%s: %d %v", path, code, refusal)
		}
	}
}

// reads reads resources through a tracker.
func reads(tr *tracker.Tracker) func(ctx context.Context, server, uri string, d catalog.Digest) (cache.Resource, error) {
	return func(ctx context.Context, server, uri string, d catalog.Digest) (cache.Resource, error) {
		return tr.Client(server).CurrentResource(ctx, uri, d)
	}
}

// TestDefinitions: the versions of a definition and their texts are served, and the current one even if
// nothing is stored.
func TestDefinitions(t *testing.T) {
	snap := world(2, 1)
	tool := func(raw string) catalog.Item {
		it, err := catalog.NewItem(catalog.Tools, json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		return it
	}
	was, is := catalog.List{tool(`{"name":"search","description":"Finds."}`)}, catalog.List{tool(`{"name":"search","description":"Finds notes."}`)}
	docs := &snap.Servers[0]
	docs.Lists = map[catalog.Kind]catalog.List{catalog.Tools: is}
	docs.Info.Instructions = "Be kind."
	j, d, store := stored(t, fixed(snap))
	s := serve(t, d, nil)
	delta := catalog.Diff(was, is)
	store("server-0000", "", event.ListChanged{List: catalog.Tools, Changed: delta.Changed, Versions: catalog.ItemVersions(was, is, delta)})
	j.Contents().Put(was[0].Digest, string(was[0].Raw))
	var h eventHistory
	fetch(t, s.URL+"/api/history?server=server-0000&item=tool/search", &h)
	if len(h.Versions) != 2 || h.Item != "tool/search" || h.Versions[0].Digest != is[0].Digest || h.Versions[0].Text || !h.Versions[1].Text || h.Versions[1].ID != "" {
		t.Errorf("%+v", h)
	}
	h = eventHistory{}
	if fetch(t, s.URL+"/api/history?server=server-0000&item=instructions", &h); len(h.Versions) != 1 || h.Versions[0].Digest.IsZero() {
		t.Errorf("instructions: %+v", h)
	}
	for digest, want := range map[catalog.Digest]string{{}: string(is[0].Raw), was[0].Digest: string(was[0].Raw), is[0].Digest: string(is[0].Raw), h.Versions[0].Digest: ""} {
		var got definition
		code := fetch(t, s.URL+"/api/servers/server-0000/content?item=tool/search&digest="+digest.String(), &got)
		if got.Text != want || (code == http.StatusOK) != (want != "") {
			t.Errorf("%v: status %d, %q, want %q", digest, code, got.Text, want)
		}
	}
	var refusal map[string]string
	for _, path := range []string{"/api/history?server=server-0000&item=launch", "/api/history?server=server-0000&item=file:///00000.md",
		"/api/servers/none/content?item=tool/search&digest=" + is[0].Digest.String(), "/api/servers/server-0000/content?item=tool/none"} {
		if code := fetch(t, s.URL+path, &refusal); code != http.StatusBadRequest && code != http.StatusNotFound {
			t.Errorf("%s: status %d", path, code)
		}
	}
}
