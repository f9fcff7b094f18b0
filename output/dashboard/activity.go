package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

const (
	// fine and coarse are the lengths of the intervals in which events are counted: fine
	// only for the last fineSpan, coarse for all events up to maxSpan.
	fine, fineSpan = 5 * time.Second, time.Hour
	coarse         = time.Minute
	// maxActivities is how many counts are kept at a time, each of one server or of all
	// servers together.
	maxActivities = 8
	maxPoints     = 600                 // of an answer
	maxSpan       = 60 * 24 * time.Hour // older events are not counted
	maxLatencies  = 24                  // buckets of latencies; see cell
)

// activity counts the events of a server, or of all servers, by the time at which they were
// stored. Each update continues after the last event that was counted, so that only the first
// request reads the whole log.
type activity struct {
	mu    sync.Mutex
	last  uint64          // number of the last event that was counted
	after time.Time       // when that event was stored
	epoch string          // of that event; "": none was counted
	fine  map[int64]*cell // by the number of the fine interval since 1970
	all   map[int64]*cell // by the number of the coarse interval since 1970
	first int64           // the first coarse interval with an event; 0: there is none
}

// cell counts the events of an interval.
type cell struct {
	events uint32
	// latencies counts the events by the time from their timestamp to their storage: at index
	// i those of up to 2^i quarters of a millisecond.
	latencies [maxLatencies]uint32
}

// counts is the answer of /api/activity: one value per interval, oldest first.
type counts struct {
	From   int64      `json:"from"` // seconds since 1970
	Step   int64      `json:"step"` // seconds
	Events []uint32   `json:"events"`
	P50    []*float64 `json:"p50"` // milliseconds from an event's timestamp to storage; null without events
	P99    []*float64 `json:"p99"`
	Oldest int64      `json:"oldest,omitempty"` // seconds since 1970, of the oldest event
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
	answer(w, a.counts(time.Now(), time.Duration(min(seconds, int64(maxSpan/time.Second)))*time.Second))
}

// activityOf returns the counts of a server, "" for all servers together. Beyond
// maxActivities, the counts that were not asked for the longest are forgotten.
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

// update counts the events of the server that were stored since the last update. a.mu must be
// held.
func (a *activity) update(ctx context.Context, read func(context.Context, journal.Selection) iter.Seq2[journal.Entry, error], server string) error {
	for entry, err := range read(ctx, journal.Selection{ServerID: server, After: a.after}) {
		if err != nil {
			return err
		}
		epoch, seq, err := event.ParseID(entry.ID)
		if err != nil {
			continue
		}
		if epoch != a.epoch { // the first entry, or the log was replaced
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
// storage; ok is false if that cannot be told.
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

// counts returns the counts of the time span before now; span 0 means since the oldest event.
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
	per := max(1, (intervals+maxPoints-1)/maxPoints) // how many intervals a point sums up
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

// quantile returns the latency, in milliseconds, that the share q of the events does not exceed:
// the upper bound of its bucket. nil: no latency is known.
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
