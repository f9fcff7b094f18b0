package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/realtime"
)

// receipt is printed for each delivered message.
type receipt struct {
	Type        string `json:"type"`
	EventID     string `json:"eventId"`
	ServerID    string `json:"serverId"`
	ResourceURI string `json:"resourceUri"`
	ItemID      string `json:"itemId"`
	LatencyMs   int64  `json:"latencyMs"` // since the oldest update that the message covers
	Merged      int    `json:"merged"`    // older updates that it covers, too
	Timestamp   string `json:"timestamp"`
	Session     string `json:"session,omitempty"` // of a proxy
}

// receipts prints receipts and counts them.
type receipts struct {
	limit  int // 0: none
	format document.Format
	tty    bool
	end    context.CancelCauseFunc // of the command

	mu      sync.Mutex // guards the rest: the sessions of a proxy print concurrently
	out     io.Writer
	counted int
	failed  error
}

// print prints the receipts of one item with one write. With the last one that is wanted,
// or after a failed write, it ends the command.
func (r *receipts) print(all []realtime.Receipt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full() || r.failed != nil {
		return
	}
	if r.limit > 0 {
		all = all[:min(len(all), r.limit-r.counted)]
	}
	var b bytes.Buffer
	err := error(nil)
	for _, x := range all {
		err = errors.Join(err, r.append(&b, x))
	}
	if err == nil {
		_, err = r.out.Write(b.Bytes())
	}
	if err != nil {
		r.failed = fmt.Errorf("write receipt: %w", err)
		r.end(r.failed)
		return
	}
	for range all {
		r.count()
	}
}

// count counts one delivered message, and ends the command at the limit. r.mu must be held.
func (r *receipts) count() {
	if r.counted++; r.full() {
		r.end(errCounted)
	}
}

func (r *receipts) full() bool { return r.limit > 0 && r.counted >= r.limit }

// append appends one receipt in the format that was asked for.
func (r *receipts) append(b *bytes.Buffer, x realtime.Receipt) error {
	line := receipt{Type: "injected", EventID: x.EventID, ServerID: x.ServerID, ResourceURI: x.ResourceURI, ItemID: x.ItemID,
		LatencyMs: x.Latency.Milliseconds(), Merged: x.Merged, Timestamp: x.At.UTC().Format(event.TimeFormat), Session: x.Session}
	switch {
	case r.tty:
		_, err := fmt.Fprintf(b, "%s  %s  injected  %s  %v\n", x.At.Format("15:04:05.000"), printable.Line(x.ServerID, 64),
			printable.Line(x.ResourceURI, 0), x.Latency.Round(time.Millisecond))
		return err
	case r.format.Name == "name":
		_, err := fmt.Fprintln(b, x.ItemID)
		return err
	case !r.format.Table() && r.format.Name != "json":
		return document.WriteEach(b, r.format, line)
	}
	doc, err := printable.Marshal(line)
	b.Write(append(doc, '\n'))
	return err
}

// outcome returns the command's error. failed is the error of sink and source, unreached
// names what could not be reached, if anything.
func (r *receipts) outcome(ctx context.Context, failed error, unreached string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full() {
		return nil
	}
	if r.failed != nil {
		failed = r.failed
	}
	refused, isRefused := errors.AsType[*realtime.RefusedError](failed)
	switch {
	case errors.Is(failed, syscall.EPIPE), errors.Is(failed, realtime.ErrEnded):
		return nil
	case isRefused:
		f := &failure{exit: exitRefused, code: "refused", err: failed}
		switch refused.Status {
		case 401, 403, 3000, 3003:
			f.hint = "check the key: it must belong to the project that owns the call"
		case 404:
			f.hint = "the call, session or model does not exist, or has ended"
		}
		if refused.Status == 0 || refused.Status >= 4000 {
			f.hint = "the endpoint refused the session: check --url, --model and --query"
		}
		return f
	case failed != nil:
		return failed
	}
	if !errors.Is(context.Cause(ctx), errTimeout) {
		return nil // interrupted: that is how streams end
	}
	switch {
	case unreached != "":
		return &failure{exit: exitUnreachable, code: "unreachable", err: fmt.Errorf("--timeout expired and %s could not be reached", unreached),
			hint: "--log-level info shows why"}
	case r.limit > 0:
		return &failure{exit: exitTimeout, code: "timeout", err: errors.New("--timeout expired before --count was reached"),
			hint: "give it more time with --timeout"}
	}
	return nil
}
