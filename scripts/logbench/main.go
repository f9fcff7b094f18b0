// Command logbench fills the event log, reads it, and prints what that took as one line of
// JSON. scripts/bench starts it. It is a program of its own because scripts/bench is also the
// server and the client that mcptrack is compared with: linked into these, the log would make
// them slower and larger.
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
	"os"
	"strconv"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

const (
	// resources is the number of resources that the events are about, in turns.
	resources = 10_000
	// samples is the number of times that something short is measured.
	samples = 50
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "logbench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) != 3 {
		return errors.New("usage: logbench fill|measure|history DIR EVENTS")
	}
	dir := args[1]
	n, err := strconv.Atoi(args[2])
	if err != nil || n < resources {
		return fmt.Errorf("%q events; expected at least %d", args[2], resources)
	}
	switch args[0] {
	case "fill":
		return fill(ctx, dir, n)
	case "measure":
		return measure(ctx, dir, n, in, out)
	case "history":
		return measureHistory(ctx, dir, n, out)
	}
	return fmt.Errorf("%q is not a command", args[0])
}

// fill makes a log of n events, as fast as that can be done.
func fill(ctx context.Context, dir string, n int) error {
	l, err := openLog(ctx, dir, "os")
	if err != nil {
		return err
	}
	return errors.Join(l.appendAll(ctx, n), l.Close())
}

// appendAll appends n events and waits until they are stored.
func (l *eventLog) appendAll(ctx context.Context, n int) error {
	for i := range n {
		if err := l.append(updated(i)); err != nil {
			return err
		}
	}
	return l.flush(ctx)
}

// costs is what measure prints.
type costs struct {
	Stored float64   `json:"stored"` // seconds until n events were stored, appended without waiting
	Read   float64   `json:"read"`   // seconds until they were read
	Append []float64 `json:"append"` // ms until one event was stored
	Resume []float64 `json:"resume"` // ms from an id to the first event after it
	Middle string    `json:"middle"` // the id after which half of the n events follow
}

// measure makes a log of n events, each durable before it counts as stored, and reads it. It
// keeps the log open until in ends, so that it can be killed with it.
func measure(ctx context.Context, dir string, n int, in io.Reader, out io.Writer) (err error) {
	l, err := openLog(ctx, dir, "always")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var took costs
	began := time.Now()
	if err := l.appendAll(ctx, n); err != nil {
		return err
	}
	took.Stored = time.Since(began).Seconds()

	began = time.Now()
	ids := make([]string, 0, n)
	for id, err := range l.read(ctx) {
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
	for i := range samples {
		at := (n - 1) / samples * i
		ms, err := measured(func() error {
			first, err := l.resume(ctx, ids[at])
			if err == nil && first != ids[at+1] {
				err = fmt.Errorf("resumed after %s with %s", ids[at], first)
			}
			return err
		})
		if err != nil {
			return err
		}
		took.Resume = append(took.Resume, ms)
	}
	for i := range samples {
		ms, err := measured(func() error { return l.store(ctx, updated(n+i)) })
		if err != nil {
			return err
		}
		took.Append = append(took.Append, ms)
	}
	if err := json.NewEncoder(out).Encode(took); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, in)
	return nil
}

// lookups is what measureHistory prints, in ms.
type lookups struct {
	Open    float64   `json:"open"`
	History []float64 `json:"history"` // of one resource
}

// measureHistory looks the versions of single resources up in a log that fill has made.
func measureHistory(ctx context.Context, dir string, n int, out io.Writer) (err error) {
	began := time.Now()
	l, err := openLog(ctx, dir, "os")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	took := lookups{Open: milliseconds(time.Since(began))}
	for i := range samples {
		ms, err := measured(func() error {
			of := uri(i * (resources / samples)) // none is asked for twice
			versions, err := l.versions(ctx, server, of)
			if err == nil && versions < n/resources {
				err = fmt.Errorf("%d versions of %s, want at least %d", versions, of, n/resources)
			}
			return err
		})
		if err != nil {
			return err
		}
		took.History = append(took.History, ms)
	}
	return json.NewEncoder(out).Encode(took)
}

// measured returns how many ms f took.
func measured(f func() error) (float64, error) {
	began := time.Now()
	err := f()
	return milliseconds(time.Since(began)), err
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
		d[len(d)-1] = 1 // the digest of 0 is a digest as well
		return d
	}
	return &event.Event{
		ID: event.FormatID(memoryEpoch, uint64(i+1)), Seq: uint64(i + 1), ServerID: server, ResourceURI: uri(i),
		Timestamp: time.Now(), Cause: event.CauseNotify,
		Payload: event.ResourceUpdated{Name: fmt.Sprintf("n%d", i), MimeType: "text/plain", Size: &size, Digest: digest(i)},
	}
}

// memoryEpoch is the epoch of the ids that the tracker would have given.
const memoryEpoch = "00000000000000b5"
