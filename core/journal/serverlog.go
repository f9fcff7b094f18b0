package journal

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/mcptrack/mcptrack/core/printable"
)

// serverLog passes on the log messages of the server in this process. They are also the only
// way to learn that a write has failed.
type serverLog struct {
	log *slog.Logger
	// fault is signalled when the store cannot be written any more. Capacity 1:
	// one is enough; never closed.
	fault chan struct{}
}

func (l *serverLog) say(level slog.Level, format string, v []any) {
	l.log.Log(context.Background(), level, "message of the store", "text", printable.Line(fmt.Sprintf(format, v...), 512))
}

// Noticef implements the server's Logger.
func (l *serverLog) Noticef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }

// Warnf implements the server's Logger.
func (l *serverLog) Warnf(format string, v ...any) { l.say(slog.LevelWarn, format, v) }

// Fatalf implements the server's Logger. The server continues after it.
func (l *serverLog) Fatalf(format string, v ...any) { l.say(slog.LevelError, format, v) }

// Errorf implements the server's Logger. Failed writes are not logged here, because the Journal
// logs them once.
func (l *serverLog) Errorf(format string, v ...any) {
	text := strings.ToLower(fmt.Sprintf(format, v...))
	for _, sign := range []string{"critical write error", "will be disabled", "failed to store a msg"} {
		if strings.Contains(text, sign) {
			select {
			case l.fault <- struct{}{}:
			default:
			}
			l.say(slog.LevelDebug, format, v)
			return
		}
	}
	l.say(slog.LevelError, format, v)
}

// Debugf implements the server's Logger.
func (l *serverLog) Debugf(string, ...any) {}

// Tracef implements the server's Logger.
func (l *serverLog) Tracef(string, ...any) {}
