package changetools_test

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/gateway/changetools"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

const (
	longEpoch = "00000000000000aa"
	longLast  = 1_000_000
)

// longLog is a long log of one server; reading an entry takes a millisecond.
type longLog struct {
	journal.Log // nil: readers do not use the rest
}

func (longLog) Bounds(context.Context) (journal.Bounds, error) {
	return journal.Bounds{Epoch: longEpoch, First: 1, Last: longLast}, nil
}

func (longLog) Follow(ctx context.Context, _ uint64) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		<-ctx.Done()
		yield(journal.Entry{}, context.Cause(ctx))
	}
}

func (longLog) Read(_ context.Context, from uint64) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		for ; from <= longLast; from++ {
			time.Sleep(time.Millisecond)
			e := event.Event{ServerID: "docs", Timestamp: time.Now(), Payload: event.ServerState{State: event.Ready}}
			data, err := e.AppendJSON(nil)
			if !yield(journal.NewEntry(longEpoch, from, e.Timestamp, data), err) {
				return
			}
		}
	}
}

func (longLog) Resume(_ context.Context, id string) (journal.Resumption, error) {
	_, seq, err := event.ParseID(id)
	return journal.Resumption{From: seq + 1, Next: longLast + 1}, err
}

func (longLog) Since(context.Context, time.Time) (uint64, error) { return 1, nil }

// A wait times out even if it reads a long log in which nothing matches; a call with the cursor
// continues there.
func TestWaitEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reader := mcpevents.NewReader(longLog{}, mcpevents.Scope{})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = reader.Run(ctx) })
		defer running.Wait()
		defer cancel()
		synctest.Wait()
		began := time.Now()
		raw, err := changetools.New(changetools.Options{Reader: reader}).Wait(ctx, &mcpserver.Request{Method: "tools/call",
			Params: json.RawMessage(`{"arguments":{"cursor":"` + longEpoch + `-1","timeoutMs":1000}}`)})
		if err != nil || !strings.Contains(string(raw), `"hasMore":true`) || !strings.Contains(string(raw), `"cursor":"`+longEpoch+`-10001"`) {
			t.Errorf("%s, %v", raw, err)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
