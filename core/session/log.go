package session

import (
	"context"
	"fmt"
	"log/slog"
)

// quietHandler passes on the log records of the MCP library at debug level, redacted because
// its errors repeat URLs and headers.
type quietHandler struct {
	next   slog.Handler
	redact func(string) string
}

func quietLogger(l *slog.Logger, redact func(string) string) *slog.Logger {
	return slog.New(quietHandler{l.Handler(), redact})
}

func (h quietHandler) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.next.Enabled(ctx, slog.LevelDebug)
}

func (h quietHandler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, slog.LevelDebug, h.redact(r.Message), 0)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.clean(a))
		return true
	})
	return h.next.Handle(ctx, out)
}

func (h quietHandler) clean(a slog.Attr) slog.Attr {
	return slog.String(a.Key, h.redact(fmt.Sprint(a.Value.Resolve().Any())))
}

func (h quietHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	cleaned := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		cleaned[i] = h.clean(a)
	}
	return quietHandler{h.next.WithAttrs(cleaned), h.redact}
}

func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.next.WithGroup(name), h.redact}
}
