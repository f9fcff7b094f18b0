package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	metaModern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	metaName   = "io.modelcontextprotocol/"
)

// wire is one connection of ServeIO, used by hand-written messages.
type wire struct {
	t      *testing.T
	h      *testServer
	in     *io.PipeWriter
	out    *bufio.Scanner
	outR   *io.PipeReader
	cancel context.CancelCauseFunc
	ended  chan error // sent to once, when ServeIO has returned
}

// pipe connects to the test server. The connection ends with the test.
func (h *testServer) pipe(t *testing.T) *wire {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, cancel := context.WithCancelCause(context.Background())
	w := &wire{t: t, h: h, in: inW, outR: outR, out: bufio.NewScanner(outR), cancel: cancel, ended: make(chan error, 1)}
	w.out.Buffer(nil, 64<<20)
	go func() {
		err := h.ServeIO(ctx, inR, outW)
		_ = outW.Close()
		w.ended <- err
		close(w.ended)
	}()
	t.Cleanup(func() {
		cancel(nil)
		_ = outR.Close()
		<-w.ended
	})
	return w
}

// send may be called on any goroutine. Errors are ignored.
func (w *wire) send(format string, args ...any) {
	w.t.Helper()
	if _, err := fmt.Fprintf(w.in, format+"\n", args...); err != nil {
		w.t.Errorf("send: %v", err)
	}
}

// next is the next message, "" at the end.
func (w *wire) next() string {
	w.t.Helper()
	if w.out.Scan() {
		if !json.Valid(w.out.Bytes()) {
			w.t.Fatalf("no JSON: %s", w.out.Text())
		}
		return w.out.Text()
	}
	return ""
}

// expect compares the next message, as JSON.
func (w *wire) expect(format string, args ...any) {
	w.t.Helper()
	want, got := fmt.Sprintf(format, args...), w.next()
	if diff := cmp.Diff(decoded(want), decoded(got)); diff != "" {
		w.t.Fatalf("(-want +got)\n%s", diff)
	}
}

// initialize goes through the legacy handshake.
func (w *wire) initialize() {
	w.t.Helper()
	w.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	w.next()
	w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func decoded(text string) any {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return "no JSON: " + text
	}
	return v
}

// code is the error code of an answer, 0 without an error.
func code(message string) int {
	var m struct{ Error struct{ Code int } }
	_ = json.Unmarshal([]byte(message), &m)
	return m.Error.Code
}
