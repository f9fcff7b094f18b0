package process

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	stderrLimit     = 64 << 10 // how many bytes of the newest lines are kept
	stderrPerSecond = 20       // maximum number of stderr lines logged per second
)

// stderrRing stores the newest stderr lines and drops the oldest. drain never stops reading, so the
// child never blocks on stderr.
type stderrRing struct {
	src    *os.File
	redact func(string) string
	log    *slog.Logger
	ended  chan struct{} // closed by drain when it returns

	mu     sync.Mutex
	recent []byte // complete lines, each with '\n'; at most twice stderrLimit bytes
	part   []byte // the start of an incomplete line, at most maxHead bytes

	window  time.Time // start of the second in which logged is counted
	logged  int
	dropped int
}

func newStderrRing(src *os.File, spec Spec) *stderrRing {
	return &stderrRing{src: src, redact: spec.Redact, log: spec.Logger, ended: make(chan struct{})}
}

// drain reads stderr until no process holds the pipe open or Stop closes it.
func (s *stderrRing) drain() {
	defer close(s.ended)
	buf := make([]byte, 4<<10)
	for {
		n, err := s.src.Read(buf)
		s.add(buf[:n])
		if err != nil {
			s.mu.Lock()
			s.endLine()
			s.mu.Unlock()
			return
		}
	}
}

func (s *stderrRing) add(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		s.part = append(s.part, line[:min(len(line), maxHead-len(s.part))]...)
		if ended {
			s.endLine()
		}
		b = rest
	}
}

// endLine moves part to the end of recent. It drops the oldest lines only when recent has reached
// twice its limit, so a flood causes only one copy per 64 KiB.
func (s *stderrRing) endLine() {
	line := bytes.TrimSpace(s.part)
	if len(line) > 0 {
		s.logLine(line)
		s.recent = append(append(s.recent, line...), '\n')
	}
	s.part = s.part[:0]
	if len(s.recent) > 2*stderrLimit {
		s.recent = append(s.recent[:0], newest(s.recent)...)
	}
}

// newest returns the last lines of recent that fit within stderrLimit bytes.
func newest(recent []byte) []byte {
	if len(recent) <= stderrLimit {
		return recent
	}
	tail := recent[len(recent)-stderrLimit:]
	return tail[bytes.IndexByte(tail, '\n')+1:]
}

// logLine logs a line unless the rate limit for the current second is exhausted.
func (s *stderrRing) logLine(line []byte) {
	if !s.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	if now := time.Now(); now.Sub(s.window) >= time.Second {
		if s.dropped > 0 {
			s.log.Debug("stderr lines not logged", "count", s.dropped)
		}
		s.window, s.logged, s.dropped = now, 0, 0
	}
	if s.logged == stderrPerSecond {
		s.dropped++
		return
	}
	s.logged++
	s.log.Debug("stderr", "line", visible(line, s.redact))
}

// lines returns the newest lines, including an unterminated last line, which is often the prompt or
// panic that explains a hang.
func (s *stderrRing) lines() []string {
	s.mu.Lock()
	raw := bytes.Clone(newest(s.recent))
	part := bytes.Clone(bytes.TrimSpace(s.part))
	s.mu.Unlock()
	var lines []string
	for line := range bytes.Lines(raw) {
		lines = append(lines, visible(bytes.TrimSuffix(line, []byte("\n")), s.redact))
	}
	if len(part) > 0 {
		lines = append(lines, visible(part, s.redact))
	}
	return lines
}

const (
	// maxHead is how many bytes of a line are processed for display at most. It exceeds what is
	// displayed, so that Redact sees a secret in full even if maxRunes would truncate it.
	maxHead = 4 << 10
	// maxRunes is the maximum number of runes of a line that are displayed.
	maxRunes = 512
)

// visible makes an untrusted line safe for logs and terminals: one line without control sequences,
// at most maxRunes runes long.
func visible(line []byte, redact func(string) string) string {
	s := string(line[:min(len(line), maxHead)])
	if redact != nil {
		s = redact(s)
	}
	return printable.Line(s, maxRunes)
}
