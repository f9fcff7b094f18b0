// Command logbench fills an event log, reads it, and prints how long that took, as one line of JSON.
// It is started by scripts/bench. It is a separate program because scripts/bench also serves as the
// server and the client in comparisons with mcptrack, and linking the log into scripts/bench would
// make them slower and larger.
//
// usage: logbench fill DIR EVENTS
// usage: logbench measure DIR EVENTS
// usage: logbench history DIR EVENTS
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
)

const (
	// resources is the number of resources. Consecutive events are about different resources.
	resources = 10_000
	// samples is the number of times that a short operation is measured.
	samples = 50
	// queue is the number of events that may wait to be stored. If more were waiting, new events
	// would replace older ones about the same resource.
	queue = 1 << 16
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "logbench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	if len(args) != 3 {
		return errors.New("usage: logbench fill|measure|history DIR EVENTS")
	}
	n, err := strconv.Atoi(args[2])
	if err != nil || n < resources {
		return fmt.Errorf("invalid number of events %q; specify at least %d", args[2], resources)
	}
	durability := journal.OS
	switch args[0] {
	case "fill", "history":
	case "measure":
		durability = journal.Always
	default:
		return fmt.Errorf("unknown command %q", args[0])
	}
	began := time.Now()
	log, err := sqlitelog.Open(ctx, sqlitelog.Options{
		Dir: args[1], Durability: durability, Queue: queue,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	switch args[0] {
	case "fill":
		return appendAll(ctx, log, n)
	case "measure":
		return measure(ctx, log, n, in, out)
	}
	return measureHistory(ctx, log, n, milliseconds(time.Since(began)), out)
}

// appendAll appends n events and waits until they are stored. To keep the queue from overflowing,
// it also waits whenever the queue is half full.
func appendAll(ctx context.Context, log journal.Log, n int) error {
	for i := range n {
		for i%1024 == 0 && log.Stats().Waiting > queue/2 {
			time.Sleep(time.Millisecond) // poll, because the writer does not signal when the queue becomes shorter
		}
		if err := log.Append(updated(i)); err != nil {
			return err
		}
	}
	if err := log.Flush(ctx); err != nil {
		return err
	}
	if stored := log.Stats().Stored; stored != uint64(n) {
		return fmt.Errorf("%d of %d events were stored", stored, n)
	}
	return nil
}

// costs contains the results that measure prints.
type costs struct {
	Stored float64   `json:"stored"` // seconds to store n events that were appended without waiting
	Read   float64   `json:"read"`   // seconds to read them back
	Append []float64 `json:"append"` // milliseconds to store a single event
	Resume []float64 `json:"resume"` // milliseconds to resume after an id and read the next event
	Middle string    `json:"middle"` // id of the event in the middle of the n events
}

// measure stores n events with full durability and reads them back. It keeps the log open until in
// is closed, so that the caller can kill the process while the log is open.
func measure(ctx context.Context, log journal.Log, n int, in io.Reader, out io.Writer) error {
	var took costs
	began := time.Now()
	if err := appendAll(ctx, log, n); err != nil {
		return err
	}
	took.Stored = time.Since(began).Seconds()

	began = time.Now()
	ids := make([]string, 0, n)
	for id, err := range read(ctx, log, 1) {
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	took.Read = time.Since(began).Seconds()
	if len(ids) != n {
		return fmt.Errorf("%d of %d events were read back", len(ids), n)
	}
	took.Middle = ids[n-n/2-1]
	var err error
	took.Resume, err = measured(func(i int) error {
		at := (n - 1) / samples * i
		first, err := resume(ctx, log, ids[at])
		if err == nil && first != ids[at+1] {
			err = fmt.Errorf("resuming after %s returned %s", ids[at], first)
		}
		return err
	})
	if err != nil {
		return err
	}
	took.Append, err = measured(func(i int) error {
		_, err := log.Store(ctx, updated(n+i))
		return err
	})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(took); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, in)
	return nil
}

// read yields the ids of all events from number seq on, in order.
func read(ctx context.Context, log journal.Log, seq uint64) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for e, err := range log.Read(ctx, seq) {
			if err == nil && (e.Gap != nil || e.Seq != seq) {
				err = fmt.Errorf("read event %s, want number %d", e.ID, seq)
			}
			if !yield(e.ID, err) || err != nil {
				return
			}
			seq++
		}
	}
}

// resume returns the id of the event that follows the event with the given id.
func resume(ctx context.Context, log journal.Log, id string) (string, error) {
	r, err := log.Resume(ctx, id)
	switch {
	case err != nil:
		return "", err
	case r.Gap != nil:
		return "", fmt.Errorf("a gap (%s) after %s", r.Gap.Reason, id)
	}
	for first, err := range read(ctx, log, r.From) {
		return first, err
	}
	return "", errors.New("nothing follows " + id)
}

// lookups contains the results that measureHistory prints, in milliseconds.
type lookups struct {
	Open    float64   `json:"open"`
	History []float64 `json:"history"` // time to find the versions of one resource
}

// measureHistory measures how long it takes to find the versions of single resources, like the
// command mcptrack history. The log must have been created by fill.
func measureHistory(ctx context.Context, log journal.Log, n int, opening float64, out io.Writer) error {
	const most = 500
	took := lookups{Open: opening}
	var err error
	took.History, err = measured(func(i int) error {
		of := uri(i * (resources / samples)) // a different resource each time
		versions, err := history.Versions(journal.Events(log.Select(ctx, journal.Selection{ServerID: server, URI: of})), most)
		if err == nil && len(versions) < n/resources {
			err = fmt.Errorf("%d versions of %s, want at least %d", len(versions), of, n/resources)
		}
		return err
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(took)
}

// measured calls f once for each sample and returns the durations in milliseconds.
func measured(f func(sample int) error) (took []float64, err error) {
	for i := range samples {
		began := time.Now()
		if err := f(i); err != nil {
			return nil, err
		}
		took = append(took, milliseconds(time.Since(began)))
	}
	return took, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

const server = "docs"

func uri(i int) string { return fmt.Sprintf("file:///docs/%d.md", i%resources) }

// updated returns the i-th event: an update of one of the resources to a new content.
func updated(i int) *event.Event {
	size := int64(i)
	digest := func(n int) (d catalog.Digest) {
		for k := range 8 {
			d[k] = byte(n >> (8 * k))
		}
		d[len(d)-1] = 1 // avoids the zero digest, which means that there is no content
		return d
	}
	return &event.Event{
		ServerID: server, ResourceURI: uri(i), Timestamp: time.Now(), Cause: event.CauseNotify,
		Payload: event.ResourceUpdated{Name: fmt.Sprintf("n%d", i), MimeType: "text/plain", Size: &size, Digest: digest(i)},
	}
}
