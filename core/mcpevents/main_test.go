package mcpevents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a service over a real log, in a synctest bubble.
type world struct {
	testing.TB
	journal journal.Log
	*mcpevents.Service
}

func newWorld(t *testing.T, opts mcpevents.Options) *world {
	t.Helper()
	return newWorldOn(t, journal.MemoryOptions{}, opts, mcpevents.Scope{})
}

func newWorldOn(t *testing.T, where journal.MemoryOptions, opts mcpevents.Options, scope mcpevents.Scope) *world {
	t.Helper()
	j := journal.NewMemory(where)
	opts.Reader = mcpevents.NewReader(j, scope)
	w := &world{TB: t, journal: j, Service: mcpevents.New(opts)}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = opts.Reader.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		_ = j.Close()
	})
	return w
}

// store stores an event and returns its id.
func (w *world) store(e event.Event) string {
	w.Helper()
	if e.Timestamp.IsZero() {
		e.Timestamp = time.Now()
	}
	return journaltest.Append(w.TB, w.journal, &e).ID
}

func updated(server, uri string, changed *bool) event.Event {
	return event.Event{ServerID: server, ResourceURI: uri, Cause: event.CauseNotify, Payload: event.ResourceUpdated{Changed: changed, Name: "n"}}
}

// request is a request of a client without capabilities.
func request(method, params string, args ...any) *mcpserver.Request {
	return &mcpserver.Request{Method: method, Params: json.RawMessage(fmt.Sprintf(params, args...))}
}

type polled struct {
	Events []struct {
		EventID, Name, Timestamp string
		Data                     map[string]any
	}
	Cursor             string
	Truncated, HasMore bool
	NextPollMs         int
}

func (p *polled) ids() (ids []string) {
	for _, e := range p.Events {
		ids = append(ids, e.EventID)
	}
	return ids
}

// poll polls once.
func (w *world) poll(params string, args ...any) (p polled) {
	w.Helper()
	raw, err := w.Handlers().Handle(w.Context(), request(mcp.MethodPollEvents, params, args...))
	if err != nil {
		w.Fatalf("%s: %v", fmt.Sprintf(params, args...), err)
	}
	if strings.Contains(string(raw), `"events":null`) {
		w.Errorf("no array: %s", raw)
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		w.Fatal(err)
	}
	return p
}

// pollFor polls until the event with the id comes, and returns the ids of all events.
func (w *world) pollFor(last, cursor, name, arguments string) (ids []string, at string) {
	w.Helper()
	synctest.Wait() // the reader has seen what was stored
	for more := true; more; {
		p := w.poll(`{"name":%q,"arguments":%s,"cursor":%q}`, name, arguments, cursor)
		ids, cursor, more = append(ids, p.ids()...), p.Cursor, p.HasMore
		if slices.Contains(ids, last) {
			return ids, cursor
		}
	}
	w.Fatalf("%s did not come, only %v", last, ids)
	return nil, ""
}

// now returns the cursor of the end of the log.
func (w *world) now() string {
	w.Helper()
	return w.poll(`{"name":"resource.updated","cursor":null}`).Cursor
}

// streaming is an open stream.
type streaming struct {
	messages chan map[string]any // sent to by the stream, closed at its end
	cancel   context.CancelFunc
	mu       sync.Mutex
	result   json.RawMessage
	err      error
}

func (w *world) stream(params string, args ...any) *streaming {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	st := &streaming{messages: make(chan map[string]any, 1000), cancel: cancel}
	var running sync.WaitGroup
	running.Go(func() {
		defer close(st.messages)
		result, err := w.Handlers().Stream(ctx, request(mcp.MethodStreamEvents, params, args...), json.RawMessage(`"s1"`), func(messages ...[]byte) error {
			for _, m := range messages {
				var v map[string]any
				if err := json.Unmarshal(m, &v); err != nil {
					w.Errorf("%s: %v", m, err)
				}
				st.messages <- v
			}
			return nil
		})
		st.mu.Lock()
		defer st.mu.Unlock()
		st.result, st.err = result, err
	})
	w.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return st
}

// next returns the next message: its method without the prefix, and its parameters.
func (st *streaming) next(t *testing.T) (string, map[string]any) {
	t.Helper()
	select {
	case m, ok := <-st.messages:
		if !ok {
			t.Fatalf("the stream has ended: %v", st.err)
		}
		params, _ := m["params"].(map[string]any)
		meta, _ := params["_meta"].(map[string]any)
		if meta[mcp.MetaSubscriptionID] != "s1" {
			t.Errorf("the message names another stream: %v", m)
		}
		return strings.TrimPrefix(m["method"].(string), "notifications/events/"), params
	case <-time.After(20 * time.Second):
		t.Fatal("no message came")
	}
	return "", nil
}

func code(err error) (int, string, map[string]any) {
	e, ok := err.(*mcpserver.Error)
	if !ok {
		return 0, "", nil
	}
	data, _ := e.Data.(map[string]any)
	return e.Code, e.Message, data
}
