package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	// maxHistory limits the events in one response.
	maxHistory = 500
	// maxScans limits concurrent reads of the log; scanTime bounds each of them.
	maxScans = 2
	scanTime = 20 * time.Second
)

// eventHistory is the response of /api/history.
type eventHistory struct {
	ServerID string `json:"serverId,omitempty"`
	URI      string `json:"uri,omitempty"`
	Item     string `json:"item,omitempty"` // the item whose definition Versions are of

	// Events has the newest matching events, newest first, as the feed sends them.
	Events []json.RawMessage `json:"events"`
	// Texts has the digests, among those in Events, whose text /content can return.
	Texts []string `json:"texts,omitempty"`
	// Versions has the versions of the resource that Events describe, newest first, each with the
	// time at which it was first seen; or the versions of the definition of Item, without Events.
	Versions []history.Version `json:"versions,omitempty"`
	// More reports whether older events exist.
	More bool `json:"more,omitempty"`
}

// history serves the versions of the definition of an item, or the stored events of a resource, of a
// server (without events about its resources), or, if neither is specified, of the time span from after to before (both in seconds since 1970),
// which is by default the span recent before now. With described, events have a description; see [event.Described].
func (d *Dashboard) history(w http.ResponseWriter, r *http.Request) {
	if d.opts.Select == nil {
		refuse(w, http.StatusNotFound, "this server stores no history")
		return
	}
	query := r.URL.Query()
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit < 1 || limit > maxHistory {
		limit = 200
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
	ctx, done, ok := d.beginScan(w, r)
	if !ok {
		return
	}
	defer done()
	if query.Has("item") {
		d.definitions(ctx, w, sel.ServerID, query.Get("item"), limit)
		return
	}
	out := eventHistory{ServerID: sel.ServerID, URI: sel.URI, Events: []json.RawMessage{}}
	for entry, err := range d.opts.Select(ctx, sel) {
		if err != nil {
			refuseScan(w, err)
			return
		}
		if !before.IsZero() && entry.Stored.After(before) {
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
	slices.Reverse(out.Events)
	if query.Has("described") {
		for i, data := range out.Events {
			out.Events[i] = event.Described(data)
		}
	}
	answer(w, out)
}

// standing serves the stored events that tell the current state of a server, oldest first: its newest
// state, what is followed since it was last connected, and what differs from the lock.
func (d *Dashboard) standing(w http.ResponseWriter, r *http.Request) {
	if d.opts.Select == nil {
		refuse(w, http.StatusNotFound, "this server stores no history")
		return
	}
	ctx, done, ok := d.beginScan(w, r)
	if !ok {
		return
	}
	defer done()
	newest := map[any]journal.Entry{} // by the type of the event; differences by section and item
	for entry, err := range d.opts.Select(ctx, journal.Selection{ServerID: r.PathValue("id"), Own: true}) {
		if err != nil {
			refuseScan(w, err)
			return
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
	for _, entry := range slices.SortedFunc(maps.Values(newest), func(a, b journal.Entry) int { return cmp.Compare(a.Seq, b.Seq) }) {
		out = append(out, entry.Data())
	}
	answer(w, out)
}

func (d *Dashboard) stored() history.Log {
	return history.Log{Select: d.opts.Select, Contents: d.opts.Contents}
}

// definitions serves the versions of the definition of one item of a server.
func (d *Dashboard) definitions(ctx context.Context, w http.ResponseWriter, server, name string, limit int) {
	it, ok := history.ParseItem(name)
	if !ok || it.Content() {
		refuse(w, http.StatusBadRequest, "item must be the name of a tool, prompt, template or resource, such as tool/search, or instructions")
		return
	}
	current, err := d.current(ctx, server, it)
	var versions []history.Version
	if err == nil {
		versions, err = d.stored().Definition(ctx, server, it, current.Digest, limit)
	}
	if err != nil {
		refuseScan(w, err)
		return
	}
	slices.Reverse(versions)
	answer(w, eventHistory{ServerID: server, Item: it.Name(), Events: []json.RawMessage{}, Versions: versions})
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
	if d.opts.Stored == nil {
		return catalog.Item{}, nil
	}
	states, err := d.opts.Stored(ctx, server)
	return catalog.Item{Digest: history.Current(states, server, it)}, err
}

// addVersions sets the versions that out.Events, which are in log order, describe.
func (d *Dashboard) addVersions(ctx context.Context, out *eventHistory) {
	out.Texts = d.texts(ctx, out.Events)
	versions, err := history.Versions(decoded(slices.Values(out.Events)), maxHistory)
	if err != nil {
		return // the events are worth showing without versions
	}
	if len(versions) == 0 {
		current := func(it history.Item) catalog.Digest {
			now, _ := d.current(ctx, out.ServerID, it)
			return now.Digest
		}
		out.Versions, _ = d.stored().SkillFile(ctx, out.ServerID, out.URI, current, maxHistory)
		slices.Reverse(out.Versions)
		return
	}
	if versions[0].ID == "" && !out.More {
		versions[0].Timestamp = d.firstSeen(ctx, out.ServerID, out.URI)
	}
	for i := range versions {
		_, versions[i].Text = slices.BinarySearch(out.Texts, versions[i].Digest.String())
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
		for entry, err := range d.opts.Select(ctx, journal.Selection{ServerID: server}) {
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

// texts returns those digests in the events for which a text is stored, sorted.
func (d *Dashboard) texts(ctx context.Context, events []json.RawMessage) (texts []string) {
	if d.opts.Contents == nil {
		return nil
	}
	var digests []catalog.Digest
	for e := range decoded(slices.Values(events)) {
		if p, ok := e.Payload.(event.ResourceUpdated); ok {
			digests = append(digests, p.Digest, p.PreviousDigest)
		}
	}
	stored, err := d.opts.Contents.Stored(ctx, digests)
	if err != nil {
		return nil // the events are worth showing without texts
	}
	for digest := range stored {
		texts = append(texts, digest.String())
	}
	slices.Sort(texts)
	return texts
}

// beginScan waits for its turn to read the log. If ok, done must be called.
func (d *Dashboard) beginScan(w http.ResponseWriter, r *http.Request) (ctx context.Context, done func(), ok bool) {
	ctx, cancel := context.WithTimeout(r.Context(), scanTime)
	select {
	case d.scans <- struct{}{}:
		return ctx, func() { <-d.scans; cancel() }, true
	case <-ctx.Done():
		cancel()
		refuse(w, http.StatusServiceUnavailable, "too many requests for the history")
		return nil, nil, false
	}
}

func refuseScan(w http.ResponseWriter, err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		refuse(w, http.StatusGatewayTimeout, "reading the log took too long")
		return
	}
	refuse(w, http.StatusServiceUnavailable, "the log cannot be read: "+printable.Reason(err, 300))
}

const (
	// Events are counted in intervals of two lengths: fine for the last fineSpan, coarse for all
	// events up to maxSpan.
	fine, fineSpan = 5 * time.Second, time.Hour
	coarse         = time.Minute
	// maxActivities limits how many activities are kept, each for one server or for all servers.
	maxActivities = 8
	maxPoints     = 600                 // points in a response
	maxSpan       = 60 * 24 * time.Hour // older events are not counted
	maxLatencies  = 24                  // latency buckets; see cell
)

// activity counts the events of one server, or of all servers, by the time they were stored. Each
// update continues after the last counted event, so only the first request reads the whole log.
type activity struct {
	mu    sync.Mutex
	last  uint64          // sequence number of the last counted event
	after time.Time       // when the last counted event was stored
	epoch string          // epoch of the last counted event; empty if no event was counted
	fine  map[int64]*cell // keyed by the number of the fine interval since 1970
	all   map[int64]*cell // keyed by the number of the coarse interval since 1970
	first int64           // first coarse interval with an event; 0 if there is none
}

// cell counts the events in one interval.
type cell struct {
	events uint32
	// latencies counts events by the time from their timestamp to their storage: index i counts
	// times of up to 2^i quarters of a millisecond.
	latencies [maxLatencies]uint32
}

// counts is the response of /api/activity: one value per interval, oldest first.
type counts struct {
	ServerID string     `json:"serverId,omitempty"` // empty for all servers together
	From     int64      `json:"from"`               // seconds since 1970
	Step     int64      `json:"step"`               // seconds
	Events   []uint32   `json:"events"`
	P50      []*float64 `json:"p50"` // milliseconds from an event's timestamp to its storage; null if the interval has no events
	P99      []*float64 `json:"p99"`
	Oldest   int64      `json:"oldest,omitempty"` // when the oldest event was stored, in seconds since 1970
}

func (d *Dashboard) activity(w http.ResponseWriter, r *http.Request) {
	if d.opts.Select == nil {
		refuse(w, http.StatusNotFound, "this server stores no history")
		return
	}
	query := r.URL.Query()
	seconds, err := strconv.ParseInt(query.Get("range"), 10, 64)
	if err != nil || seconds < 0 {
		refuse(w, http.StatusBadRequest, "range must be a number of seconds; 0 is everything")
		return
	}
	ctx, done, ok := d.beginScan(w, r)
	if !ok {
		return
	}
	defer done()
	a := d.activityOf(query.Get("server"))
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.update(ctx, d.opts.Select, query.Get("server")); err != nil {
		refuseScan(w, err)
		return
	}
	out := a.counts(time.Now(), time.Duration(min(seconds, int64(maxSpan/time.Second)))*time.Second)
	out.ServerID = query.Get("server")
	answer(w, out)
}

// activityOf returns the activity of a server, or of all servers if server is empty. Beyond
// maxActivities it drops the least recently requested activity.
func (d *Dashboard) activityOf(server string) *activity {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, id := range d.activityOrder {
		if id == server {
			d.activityOrder = append(append(d.activityOrder[:i:i], d.activityOrder[i+1:]...), id)
			return d.activities[id]
		}
	}
	if len(d.activityOrder) == maxActivities {
		delete(d.activities, d.activityOrder[0])
		d.activityOrder = d.activityOrder[1:]
	}
	a := &activity{fine: make(map[int64]*cell), all: make(map[int64]*cell)}
	d.activities[server] = a
	d.activityOrder = append(d.activityOrder, server)
	return a
}

// update counts the server's events that were stored since the last update. The caller must hold
// a.mu.
func (a *activity) update(ctx context.Context, read func(context.Context, journal.Selection) iter.Seq2[journal.Entry, error], server string) error {
	for entry, err := range read(ctx, journal.Selection{ServerID: server, After: a.after}) {
		if err != nil {
			return err
		}
		epoch, seq, err := event.ParseID(entry.ID)
		if err != nil {
			continue
		}
		if epoch != a.epoch { // first entry, or the log was replaced
			clear(a.fine)
			clear(a.all)
			a.epoch, a.last, a.first = epoch, 0, 0
		}
		if seq <= a.last {
			continue
		}
		a.last, a.after = seq, entry.Stored
		a.count(entry)
	}
	oldest := time.Now().Add(-fineSpan-coarse).UnixNano() / int64(fine)
	for at := range a.fine {
		if at < oldest {
			delete(a.fine, at)
		}
	}
	return nil
}

func (a *activity) count(entry journal.Entry) {
	age := time.Since(entry.Stored)
	if age > maxSpan {
		return
	}
	bucket, ok := latency(entry)
	at := entry.Stored.UnixNano() / int64(coarse)
	if a.first == 0 || at < a.first {
		a.first = at
	}
	add(a.all, at, bucket, ok)
	if age <= fineSpan {
		add(a.fine, entry.Stored.UnixNano()/int64(fine), bucket, ok)
	}
}

func add(cells map[int64]*cell, at int64, bucket int, measured bool) {
	c := cells[at]
	if c == nil {
		c = new(cell)
		cells[at] = c
	}
	c.events++
	if measured {
		c.latencies[bucket]++
	}
}

// latency returns the index in cell.latencies for the time from an event's timestamp to its
// storage. ok is false if that time is unknown.
func latency(entry journal.Entry) (bucket int, ok bool) {
	_, rest, found := bytes.Cut(entry.Data(), []byte(`"timestamp":`))
	end := bytes.IndexByte(rest, ',')
	var at time.Time
	if !found || end < 0 || json.Unmarshal(rest[:end], &at) != nil {
		return 0, false
	}
	quarters := float64(entry.Stored.Sub(at)) / float64(250*time.Microsecond)
	if quarters < 1 {
		return 0, quarters >= -4 // timestamps are truncated to milliseconds
	}
	return min(int(math.Log2(quarters))+1, maxLatencies-1), true
}

// counts returns the counts for the time span before now. A span of 0 starts at the oldest event.
func (a *activity) counts(now time.Time, span time.Duration) counts {
	cells, size := a.all, coarse
	if span == 0 {
		span = coarse * time.Duration(max(now.UnixNano()/int64(coarse)-a.first+1, 5))
		if a.first == 0 {
			span = 5 * coarse
		}
	}
	if span <= fineSpan {
		cells, size = a.fine, fine
	}
	intervals := int64(span / size)
	per := max(1, (intervals+maxPoints-1)/maxPoints) // intervals per point
	end := now.UnixNano()/int64(size) + 1
	points := (intervals + per - 1) / per
	begin := end - points*per
	sums := make([]cell, points)
	for at, c := range cells {
		if at < begin || at >= end {
			continue
		}
		sum := &sums[(at-begin)/per]
		sum.events += c.events
		for i, n := range c.latencies {
			sum.latencies[i] += n
		}
	}
	seconds := int64(size / time.Second)
	out := counts{From: begin * seconds, Step: per * seconds, Oldest: a.first * 60}
	for i := range sums {
		out.Events = append(out.Events, sums[i].events)
		out.P50 = append(out.P50, sums[i].quantile(.5))
		out.P99 = append(out.P99, sums[i].quantile(.99))
	}
	return out
}

// quantile returns the q-quantile of the latencies in milliseconds, rounded up to the bound of its
// bucket. It returns nil if no latency is known.
func (c *cell) quantile(q float64) *float64 {
	var sum uint32
	for _, n := range c.latencies {
		sum += n
	}
	if sum == 0 {
		return nil
	}
	rank := uint32(math.Ceil(q * float64(sum)))
	for i, n := range c.latencies {
		if n >= rank {
			ms := math.Exp2(float64(i)) / 4
			return &ms
		}
		rank -= n
	}
	return nil
}
