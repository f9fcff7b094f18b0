// Command logbench fills the event log, reads it, and prints how long that took as one line of
// JSON. scripts/bench starts it. It is a separate program because scripts/bench is also the server
// and the client that mcptrack is compared with: linking the log into them would make them slower
// and larger.
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
	// resources is the number of resources; consecutive events are about different ones.
	resources = 10_000
	// samples is how often a short operation is measured.
	samples = 50
	// queue is how many events may wait to be stored. More would replace older ones of their resource.
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
		return fmt.Errorf("%q events; expected at least %d", args[2], resources)
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

// appendAll appends n events and waits until they are stored. It waits in between only while the
// queue is half full.
func appendAll(ctx context.Context, log journal.Log, n int) error {
	for i := range n {
		for i%1024 == 0 && log.Stats().Waiting > queue/2 {
			time.Sleep(time.Millisecond) // the writer has no signal for a shorter queue
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

// costs is what measure prints.
type costs struct {
	Stored float64   `json:"stored"` // seconds until n events were stored, appended without waiting
	Read   float64   `json:"read"`   // seconds until they were read
	Append []float64 `json:"append"` // ms until one event was stored
	Resume []float64 `json:"resume"` // ms from an id to the first event after it
	Middle string    `json:"middle"` // the id after which half of the n events follow
}

// measure stores n events, each durable before it counts as stored, and reads them. It keeps the
// log open until in ends, so that the log can be killed with the process.
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
			err = fmt.Errorf("resumed after %s with %s", ids[at], first)
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
				err = fmt.Errorf("read %s instead of number %d", e.ID, seq)
			}
			if !yield(e.ID, err) || err != nil {
				return
			}
			seq++
		}
	}
}

// resume returns the id of the event after the one with the id.
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

// lookups is what measureHistory prints, in ms.
type lookups struct {
	Open    float64   `json:"open"`
	History []float64 `json:"history"` // of one resource
}

// measureHistory looks up the versions of single resources, as mcptrack history does, in a log that
// fill has made.
func measureHistory(ctx context.Context, log journal.Log, n int, opening float64, out io.Writer) error {
	const most = 500
	took := lookups{Open: opening}
	var err error
	took.History, err = measured(func(i int) error {
		of := uri(i * (resources / samples)) // each only once
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

// measured returns how many ms each of the samples took.
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

// updated is the i-th event: another content of one of the resources.
func updated(i int) *event.Event {
	size := int64(i)
	digest := func(n int) (d catalog.Digest) {
		for k := range 8 {
			d[k] = byte(n >> (8 * k))
		}
		d[len(d)-1] = 1 // 0 is the digest of nothing
		return d
	}
	return &event.Event{
		ServerID: server, ResourceURI: uri(i), Timestamp: time.Now(), Cause: event.CauseNotify,
		Payload: event.ResourceUpdated{Name: fmt.Sprintf("n%d", i), MimeType: "text/plain", Size: &size, Digest: digest(i)},
	}
}
