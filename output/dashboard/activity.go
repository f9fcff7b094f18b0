package dashboard

import (
	"context"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

const (
	// Events are counted in intervals of two lengths: fine for the last fineSpan, coarse for all
	// events up to maxSpan.
	fine, fineSpan = 5 * time.Second, time.Hour
	coarse         = time.Minute
	maxPoints      = 600                 // points in a response
	maxSpan        = 60 * 24 * time.Hour // older events are not counted
)

// activity counts the events by the time they were stored. Each update continues after the last counted
// event, so only the first request reads the whole log.
type activity struct {
	mu    sync.Mutex
	last  uint64           // sequence number of the last counted event
	after time.Time        // when the last counted event was stored
	epoch string           // epoch of the last counted event; empty if no event was counted
	fine  map[int64]uint32 // by the number of the fine interval since 1970
	all   map[int64]uint32 // by the number of the coarse interval since 1970
	first int64            // first coarse interval with an event; 0 if there is none
}

// counts is the response of /api/activity: one value per interval, oldest first.
type counts struct {
	From   int64    `json:"from"` // seconds since 1970
	Step   int64    `json:"step"` // seconds
	Events []uint32 `json:"events"`
	Oldest int64    `json:"oldest,omitempty"` // when the oldest event was stored, in seconds since 1970
}

func (d *Dashboard) activity(ctx context.Context, r *http.Request) (any, error) {
	seconds, err := strconv.ParseInt(r.URL.Query().Get("range"), 10, 64)
	if err != nil || seconds < 0 {
		return nil, &refusal{http.StatusBadRequest, "range must be a number of seconds; 0 is everything"}
	}
	a := &d.counted
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.update(ctx, d.events); err != nil {
		return nil, err
	}
	return a.counts(time.Now(), time.Duration(min(seconds, int64(maxSpan/time.Second)))*time.Second), nil
}

// update counts the events that were stored since the last update. The caller must hold
// a.mu.
func (a *activity) update(ctx context.Context, log journal.Log) error {
	for entry, err := range log.Select(ctx, journal.Selection{After: a.after}) {
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
		age, at := time.Since(entry.Stored), entry.Stored.UnixNano()
		if age > maxSpan {
			continue
		}
		if a.first == 0 || at/int64(coarse) < a.first {
			a.first = at / int64(coarse)
		}
		a.all[at/int64(coarse)]++
		if age <= fineSpan {
			a.fine[at/int64(fine)]++
		}
	}
	oldest := time.Now().Add(-fineSpan-coarse).UnixNano() / int64(fine)
	maps.DeleteFunc(a.fine, func(at int64, _ uint32) bool { return at < oldest })
	return nil
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
	seconds := int64(size / time.Second)
	out := counts{From: begin * seconds, Step: per * seconds, Events: make([]uint32, points), Oldest: a.first * 60}
	for at, events := range cells {
		if at >= begin && at < end {
			out.Events[(at-begin)/per] += events
		}
	}
	return out
}
