package commands

import (
	"context"
	"encoding/json"
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

// receipt is what is printed of a message that was delivered.
type receipt struct {
	Type        string `json:"type"`
	EventID     string `json:"eventId"`
	ServerID    string `json:"serverId"`
	ResourceURI string `json:"resourceUri"`
	ItemID      string `json:"itemId"`
	LatencyMs   int64  `json:"latencyMs"`
	Timestamp   string `json:"timestamp"`
	Session     string `json:"session,omitempty"` // of a proxy's sessions, which
}

// receipts prints receipts and counts them.
type receipts struct {
	limit  int // 0: none
	format document.Format
	tty    bool
	end    context.CancelCauseFunc // of the command

	mu      sync.Mutex // guards the rest: a proxy's sessions print side by side
	out     io.Writer
	counted int
	failed  error
}

// print prints one receipt; at the last that is wanted, or when it cannot, it ends
// the command.
func (r *receipts) print(x realtime.Receipt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full() || r.failed != nil {
		return
	}
	if err := r.write(x); err != nil {
		r.failed = fmt.Errorf("write receipt: %w", err)
		r.end(r.failed)
		return
	}
	r.count()
}

// count notes one message; the caller holds the lock.
func (r *receipts) count() {
	if r.counted++; r.full() {
		r.end(errCounted)
	}
}

func (r *receipts) full() bool { return r.limit > 0 && r.counted >= r.limit }

func (r *receipts) write(x realtime.Receipt) error {
	line := receipt{Type: "injected", EventID: x.EventID, ServerID: x.ServerID, ResourceURI: x.ResourceURI, ItemID: x.ItemID,
		LatencyMs: x.Latency.Milliseconds(), Timestamp: x.At.UTC().Format(event.TimeFormat), Session: x.Session}
	switch {
	case r.tty:
		_, err := fmt.Fprintf(r.out, "%s  %s  injected  %s  %v\n", x.At.Format("15:04:05.000"), printable.Line(x.ServerID, 64),
			printable.Line(x.ResourceURI, 0), x.Latency.Round(time.Millisecond))
		return err
	case r.format.Name == "name":
		_, err := fmt.Fprintln(r.out, x.ItemID)
		return err
	case !r.format.Table() && r.format.Name != "json":
		return document.WriteEach(r.out, r.format, line)
	}
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = r.out.Write(append(printable.JSON(b), '\n'))
	return err
}

// outcome is the command's error. failed is what the sink and the source came to,
// unreached what could not be reached, if anything.
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
			f.hint = "is the key right, and of the project that the call belongs to?"
		case 404:
			f.hint = "there is no such call or model, or the call is over"
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
		return &failure{exit: exitUnreachable, code: "unreachable", err: fmt.Errorf("--timeout ran out and %s could not be reached", unreached),
			hint: "--log-level info tells why"}
	case r.limit > 0:
		return &failure{exit: exitTimeout, code: "timeout", err: errors.New("--timeout ran out before --count was reached"),
			hint: "give it more time with --timeout"}
	}
	return nil
}
