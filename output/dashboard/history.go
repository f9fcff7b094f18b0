package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/lock"
)

// maxHistory limits the events in one response.
const maxHistory = 500

// eventHistory is the response of /api/history.
type eventHistory struct {
	ServerID string `json:"serverId,omitempty"`
	URI      string `json:"uri,omitempty"`
	Item     string `json:"item,omitempty"` // the item whose definition Versions are of

	// Events has the newest matching events, newest first, as the feed sends them.
	Events []json.RawMessage `json:"events"`
	// Versions has the versions of the resource that Events describe, newest first, each with the
	// time at which it was first seen; or the versions of the definition of Item, without Events.
	Versions []history.Version `json:"versions,omitempty"`
	// More reports whether older events exist.
	More bool `json:"more,omitempty"`
}

// history returns the versions of the definition of an item, or the stored events of a resource, of a server
// (without events about its resources), or, if neither is specified, of the time span from after to before (both
// in seconds since 1970), which is by default the span recent before now. With described, events have a
// description; see [event.Described]. With versions, events are left out. With the id of an event in until, only
// older events are returned.
func (d *Dashboard) history(ctx context.Context, r *http.Request) (any, error) {
	query := r.URL.Query()
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit < 1 || limit > maxHistory {
		limit = 200
	}
	if query.Has("item") {
		return d.definitions(ctx, query.Get("server"), query.Get("item"), limit)
	}
	sel := journal.Selection{ServerID: query.Get("server"), URI: query.Get("uri"), Own: query.Get("uri") == ""}
	before := time.Time{}
	if sel.ServerID == "" {
		sel.After = time.Now().Add(-recent)
		if after, err := strconv.ParseInt(query.Get("after"), 10, 64); err == nil {
			sel.After = time.Unix(after, 0)
		}
		if until, err := strconv.ParseInt(query.Get("before"), 10, 64); err == nil {
			before = time.Unix(until, 0)
		}
	}
	_, until, _ := event.ParseID(query.Get("until")) // 0 if there is none
	out := eventHistory{ServerID: sel.ServerID, URI: sel.URI, Events: []json.RawMessage{}}
	for entry, err := range d.events.Select(ctx, sel) {
		if err != nil {
			return nil, err
		}
		if !before.IsZero() && entry.Stored.After(before) || until > 0 && entry.Seq >= until {
			break
		}
		if len(out.Events) >= 2*limit {
			out.Events = append(out.Events[:0], out.Events[limit:]...)
			out.More = true
		}
		out.Events = append(out.Events, entry.Data())
	}
	if n := len(out.Events); n > limit {
		out.Events, out.More = out.Events[n-limit:], true
	}
	if sel.URI != "" {
		d.addVersions(ctx, &out)
	}
	if query.Has("versions") {
		out.Events = out.Events[:0]
	}
	slices.Reverse(out.Events)
	if query.Has("described") {
		for i, data := range out.Events {
			out.Events[i] = event.Described(data)
		}
	}
	return out, nil
}

// standing returns the stored events that tell the current state of a server, oldest first: its newest
// state, what is followed since it was last connected, and what differs from the lock.
func (d *Dashboard) standing(ctx context.Context, r *http.Request) (any, error) {
	newest := map[any]journal.Entry{} // by the type of the event; differences by section and item
	for entry, err := range d.events.Select(ctx, journal.Selection{ServerID: r.PathValue("id"), Own: true}) {
		if err != nil {
			return nil, err
		}
		e, _ := entry.Event() // without a payload if it is not an event
		switch p := e.Payload.(type) {
		case event.ServerState:
			if newest[e.Type()] = entry; p.State == event.Connecting {
				delete(newest, event.TypeSubscriptionActive)
			}
		case event.SubscriptionActive:
			newest[e.Type()] = entry
		case event.LockDrift:
			item := [2]string{p.Section, p.Item}
			if newest[item] = entry; p.Change != event.DriftChanged {
				delete(newest, item)
			}
		}
	}
	out := []json.RawMessage{}
	entries := slices.Collect(maps.Values(newest))
	sort.Slice(entries, func(i, j int) bool { return entries[i].Seq < entries[j].Seq })
	for _, entry := range entries {
		out = append(out, entry.Data())
	}
	return out, nil
}

func (d *Dashboard) versions() history.Log {
	return history.Log{Select: d.events.Select, Contents: d.events.Contents()}
}

// definitions returns the versions of the definition of one item of a server.
func (d *Dashboard) definitions(ctx context.Context, server, name string, limit int) (any, error) {
	it, ok := history.ParseItem(name)
	if !ok || it.Content() {
		return nil, &refusal{http.StatusBadRequest, "item must be the name of a tool, prompt, template or resource, such as tool/search, or instructions"}
	}
	current, err := d.current(ctx, server, it)
	if err != nil {
		return nil, err
	}
	versions, err := d.versions().Definition(ctx, server, it, current.Digest, limit)
	slices.Reverse(versions)
	return eventHistory{ServerID: server, Item: it.Name(), Events: []json.RawMessage{}, Versions: versions}, err
}

// current returns the definition of an item that its server offers now. If another process follows the
// server, only the digest is known. It returns the zero Item if nothing is known.
func (d *Dashboard) current(ctx context.Context, server string, it history.Item) (catalog.Item, error) {
	if st, here := d.opts.Snapshot().Server(server); here {
		if it.Section == lock.SectionInstructions {
			definition, digest := catalog.Text(st.Info.Instructions)
			return catalog.Item{Raw: json.RawMessage(definition), Digest: digest}, nil
		}
		now, _ := st.Lists[catalog.Kind(it.Section)].Get(it.Key)
		return now, nil
	}
	states, err := d.events.States(ctx, server)
	return catalog.Item{Digest: history.Current(states, server, it)}, err
}

// addVersions sets the versions that out.Events, which are in log order, describe.
func (d *Dashboard) addVersions(ctx context.Context, out *eventHistory) {
	versions, err := history.Versions(decoded(slices.Values(out.Events)), maxHistory)
	if err != nil {
		return // the events are worth showing without versions
	}
	if len(versions) == 0 {
		current := func(it history.Item) catalog.Digest {
			now, _ := d.current(ctx, out.ServerID, it)
			return now.Digest
		}
		out.Versions, _ = d.versions().SkillFile(ctx, out.ServerID, out.URI, current, maxHistory)
		slices.Reverse(out.Versions)
		return
	}
	if versions[0].ID == "" && !out.More {
		versions[0].Timestamp = d.firstSeen(ctx, out.ServerID, out.URI)
	}
	texts, _ := d.events.Contents().Stored(ctx, history.Digests(versions)) // versions are worth showing without texts
	for i := range versions {
		versions[i].Text = texts[versions[i].Digest]
	}
	slices.Reverse(versions)
	out.Versions = versions
}

// firstSeen returns when the content of a resource before its first stored change was first seen,
// or zero if that is unknown.
func (d *Dashboard) firstSeen(ctx context.Context, server, uri string) time.Time {
	quoted, err := json.Marshal(uri)
	if err != nil {
		return time.Time{}
	}
	seen, _ := history.FirstSeen(decoded(func(yield func(json.RawMessage) bool) {
		for entry, err := range d.events.Select(ctx, journal.Selection{ServerID: server}) {
			data := entry.Data()
			if err != nil || (bytes.Contains(data, quoted) || bytes.Contains(data, []byte(`"subscription.active"`))) && !yield(data) {
				return
			}
		}
	}), uri)
	return seen
}

// decoded decodes stored events. It skips events that are not valid.
func decoded(stored iter.Seq[json.RawMessage]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for data := range stored {
			var e event.Event
			if json.Unmarshal(data, &e) == nil && !yield(e, nil) {
				return
			}
		}
	}
}

// recent is the age of the oldest event that is returned if no server is given.
const recent = 15 * time.Minute
