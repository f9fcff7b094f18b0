package jsonl

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/event"
)

// A line that is no event costs that line, however long it is, and the memory of
// one line.
func TestReadEvents(t *testing.T) {
	t.Parallel()
	good := `{"type":"resource.updated","serverId":"s","resourceUri":"u:1","timestamp":"2026-11-20T19:37:25.123Z"}`
	// A newer version may send types, causes and members that this one does not know.
	archived := strings.Replace(good, "updated", "archived", 1)
	newer := strings.Replace(good, `{`, `{"cause":"telepathy","digest":"sha512:00","score":[1],`, 1)
	in := strings.Join([]string{"\ufeff", strings.Repeat("x", 3*maxLine), good, "", "  ", "{}", archived, newer, good}, "\n") // the last without a line feed
	var logged bytes.Buffer
	n := 0
	err := Read(t.Context(), strings.NewReader(in), slog.New(slog.NewTextHandler(&logged, nil)), func(*event.Event) error { n++; return nil })
	if err != nil || n != 3 || !strings.Contains(logged.String(), "lines=3") {
		t.Errorf("%v, %d events, %s", err, n, &logged)
	}
	wrong := errors.New("full")
	err = Read(t.Context(), strings.NewReader(good+"\n"+good), slog.New(slog.DiscardHandler), func(*event.Event) error { return wrong })
	if !errors.Is(err, wrong) {
		t.Errorf("%v", err)
	}
	// It ends with its context although nothing comes.
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	cancel()
	if err := Read(ctx, r, slog.New(slog.DiscardHandler), nil); err != nil {
		t.Errorf("%v", err)
	}
}
