package changetools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/gateway/changetools"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is the tools over a real log, in a synctest bubble.
type world struct {
	*testing.T
	*changetools.Tools
	journal journal.Log
}

func newWorld(t *testing.T, opts journal.MemoryOptions) *world {
	t.Helper()
	opts.KeepContent = 1 << 20
	j := journal.NewMemory(opts)
	reader := mcpevents.NewReader(j, mcpevents.Scope{})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = reader.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		_ = j.Close()
	})
	return &world{t, changetools.New(changetools.Options{Reader: reader, Text: j.Contents().Get, Diff: func(label, from, to string) string {
		return "--- " + label + "\n-" + strings.TrimSpace(from) + "\n+" + strings.TrimSpace(to) + "\n"
	}}), j}
}

// store stores an event, whatever was known before, and returns its id.
func (w *world) store(e event.Event) string {
	w.Helper()
	e.Timestamp = time.Now()
	return journaltest.Append(w.T, w.journal, &e).ID
}

// updated stores two texts and returns the event of a change from one to the other.
func (w *world) updated(server, uri, from, to string) event.Event {
	digest := func(text string) (d catalog.Digest) {
		copy(d[:], text+"..........")
		w.journal.Contents().Put(d, text)
		return d
	}
	yes := true
	e := event.Event{ServerID: server, ResourceURI: uri, Cause: event.CauseNotify, Payload: event.ResourceUpdated{
		Changed: &yes, Digest: digest(to), PreviousDigest: digest(from)}}
	if err := w.journal.Flush(w.Context()); err != nil {
		w.Fatal(err)
	}
	return e
}

// result is what a client sees.
type result struct {
	Content           []struct{ Type, Text string }
	StructuredContent struct {
		Changes []struct {
			Kind, Server, URI, At, Diff string
			Times, More                 int
			DiffCut                     bool
			Added, Removed, Changed     []string
		}
		Cursor             string
		HasMore, Truncated bool
	}
	IsError bool
}

func (r *result) text() string { return r.Content[0].Text }

// uris returns the URIs of the changed resources.
func (r *result) uris() (uris []string) {
	for _, c := range r.StructuredContent.Changes {
		uris = append(uris, c.URI)
	}
	return uris
}

func (w *world) call(ctx context.Context, tool mcpserver.Func, arguments string, args ...any) (r result, err error) {
	w.Helper()
	raw, err := tool(ctx, &mcpserver.Request{Method: "tools/call", Params: json.RawMessage(fmt.Sprintf(`{"arguments":`+arguments+`}`, args...))})
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) != 1 {
		w.Fatalf("%s: %v", raw, err)
	}
	return r, nil
}

func (w *world) since(arguments string, args ...any) result {
	w.Helper()
	r, err := w.call(w.Context(), w.Since, arguments, args...)
	if err != nil || r.IsError {
		w.Fatalf("%+v, %v", r, err)
	}
	return r
}

// sinceUntil is since after the reader has seen everything stored. The result has the cursor id,
// or there is more.
func (w *world) sinceUntil(id, arguments string, args ...any) result {
	w.Helper()
	synctest.Wait()
	r := w.since(arguments, args...)
	if r.StructuredContent.Cursor != id && !r.StructuredContent.HasMore {
		w.Fatalf("the cursor is %s, not %s", r.StructuredContent.Cursor, id)
	}
	return r
}

func request(arguments string) *mcpserver.Request {
	return &mcpserver.Request{Method: "tools/call", Params: json.RawMessage(`{"arguments":` + arguments + `}`)}
}
