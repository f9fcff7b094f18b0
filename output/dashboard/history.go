package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	// maxHistory is how many events one response has at most.
	maxHistory = 500
	// maxScans is how many requests read the log at a time, and scanTime how long each
	// may take.
	maxScans = 2
	scanTime = 20 * time.Second
)

// history is the answer of /api/history.
type history struct {
	// Events are the newest events that were asked for, newest first, in their wire form.
	Events []json.RawMessage `json:"events"`
	// Texts are the digests in the events for which /content returns the text.
	Texts []string `json:"texts,omitempty"`
	// More says that there are older events.
	More bool `json:"more,omitempty"`
}

// history answers with the stored events of a resource, of a server (without those of its
// resources), or, if neither is given, of the time recent.
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
	sel := journal.Selection{ServerID: query.Get("server"), URI: query.Get("uri")}
	if sel.ServerID == "" {
		sel.After = time.Now().Add(-recent)
	}
	ctx, done, ok := d.beginScan(w, r)
	if !ok {
		return
	}
	defer done()
	out := history{Events: []json.RawMessage{}}
	for entry, err := range d.opts.Select(ctx, sel) {
		if err != nil {
			refuseScan(w, err)
			return
		}
		if sel.ServerID != "" && sel.URI == "" && bytes.Contains(entry.Data(), []byte(`"type":"resource.`)) {
			continue
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
	for i, j := 0, len(out.Events)-1; i < j; i, j = i+1, j-1 {
		out.Events[i], out.Events[j] = out.Events[j], out.Events[i]
	}
	if sel.URI != "" {
		out.Texts = d.texts(ctx, out.Events)
	}
	answer(w, out)
}

// recent is the age of the oldest event that is returned if no server is given.
const recent = 15 * time.Minute

// texts returns those digests in the events for which a text is stored, sorted.
func (d *Dashboard) texts(ctx context.Context, events []json.RawMessage) (texts []string) {
	if d.opts.Contents == nil {
		return nil
	}
	var digests []catalog.Digest
	for _, data := range events {
		var e event.Event
		if json.Unmarshal(data, &e) != nil {
			continue
		}
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
