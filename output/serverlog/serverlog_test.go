package serverlog

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/status"
)

// TestLines: records about a server are kept for it, printable, in the form that people
// read; the others are not.
func TestLines(t *testing.T) {
	l := New()
	log := slog.New(l).With("part", "x")
	docs := log.With("server", "docs")
	docs.Debug("stderr", "line", "evil\x1b[2J\nnext")
	docs.Warn(status.StateMessage, "state", "Backoff", "err", "refused")
	log.Info("shared", "server", "docs")
	log.Info("about none")
	var got []string
	for _, line := range l.Lines("docs") {
		if line.Time.IsZero() {
			t.Errorf("%+v has no time", line)
		}
		got = append(got, line.Level+" "+line.Text)
	}
	want := []string{`stderr evil\x1b[2J\nnext`, "WARN part=x state=Backoff err=refused", "INFO shared part=x"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q, want %q", got, want)
	}
	if got := l.Lines(""); got != nil {
		t.Errorf("about none: %v", got)
	}
	long := strings.Repeat("long", 100)
	log.With("server", printable.Line(long, 128)).Info("cut") // as the tracker does
	if got := l.Lines(long); len(got) != 1 {
		t.Errorf("a long name: %v", got)
	}
}

// TestBounds: whatever is logged, the memory is bounded, and the newest lines are kept.
func TestBounds(t *testing.T) {
	l := New()
	for i := range 3 * maxLines {
		slog.New(l).Info(fmt.Sprint(i), "server", "short")
	}
	if got := l.Lines("short"); len(got) != maxLines || got[maxLines-1].Text != fmt.Sprint(3*maxLines-1) {
		t.Errorf("%d lines, the last is %+v", len(got), got[len(got)-1])
	}
	large := strings.Repeat("x", maxLine)
	const servers = 1000
	for server := range servers {
		for range 10 {
			slog.New(l).Info(large, "server", fmt.Sprint(server))
		}
	}
	sum := 0
	for id, of := range l.of {
		bytes := 0
		for _, line := range of.all {
			bytes += line.size()
		}
		if bytes > maxBytes || bytes != of.bytes {
			t.Errorf("%s: %d bytes, counted %d", id, bytes, of.bytes)
		}
		sum += bytes
	}
	if sum > maxTotal || sum != l.bytes {
		t.Errorf("%d bytes of %d servers, counted %d", sum, len(l.of), l.bytes)
	}
	if l.Lines("short") != nil || len(l.Lines(fmt.Sprint(servers-1))) == 0 {
		t.Error("the servers that were logged last are not those that are kept")
	}
}

// TestLineJSON: times have three fractional digits, as in events.
func TestLineJSON(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 37, 25, 120_000_001, time.FixedZone("", 3600))
	got, err := json.Marshal(Line{Time: at, Level: Stderr, Text: "x"})
	if want := `{"timestamp":"2026-11-20T08:37:25.120Z","level":"stderr","text":"x"}`; string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
