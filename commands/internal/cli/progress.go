package cli

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/output/termtext"
)

// progressLine shows a text on the last line of a terminal, and log lines above it.
type progressLine struct {
	to io.Writer

	mu    sync.Mutex
	drawn bool // whether the text is on the last line
}

// put erases the text and writes another one, which is progress or a log line.
func (s *progressLine) put(text string, progress bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drawn {
		text = "\r\x1b[K" + text
	}
	s.drawn = progress
	_, err := io.WriteString(s.to, text)
	return err
}

// Write erases the text and writes a log line; the next frame is drawn below it.
func (s *progressLine) Write(p []byte) (int, error) {
	if err := s.put(string(p), false); err != nil {
		return 0, err
	}
	return len(p), nil
}

const (
	// quiet is the delay before a terminal shows that a request is in progress.
	quiet = 300 * time.Millisecond
	frame = 100 * time.Millisecond
)

// progress shows a text on a terminal until stop is called, which may be called more than once. The caller
// must use the environment beside instead of env until then.
func (g *Globals) progress(env *Env, text func() string) (beside *Env, stop func()) {
	if !env.ErrTTY || g.Quiet {
		return env, func() {}
	}
	var colour termtext.Colour
	if g.Colours(env, true) {
		colour = termtext.Cyan
	}
	s := &progressLine{to: env.Err}
	done := make(chan struct{}) // closed by stop
	var drawing sync.WaitGroup
	drawing.Go(func() {
		for next, signs := time.After(quiet), "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"; ; next = time.After(frame) {
			select {
			case <-done:
				_ = s.put("", false)
				return
			case <-next:
			}
			shown, size := text(), len("⠋")
			if width := env.errWidth(); width > 0 {
				shown = termtext.End(shown, width-3)
			}
			_ = s.put(colour.Paint(signs[:size])+" "+shown, true)
			signs = signs[size:] + signs[:size]
		}
	})
	out := *env
	out.Err = s
	return &out, sync.OnceFunc(func() {
		close(done)
		drawing.Wait()
	})
}

// Waiting shows what the command is waiting for, for how long, and the last progress passed to report;
// see progress.
func (g *Globals) Waiting(env *Env, what string) (beside *Env, report func(session.Progress), stop func()) {
	var last atomic.Pointer[string]
	last.Store(new(string))
	began := time.Now()
	beside, stop = g.progress(env, func() string {
		return fmt.Sprintf("%s%s (%s)", what, *last.Load(), time.Since(began).Round(time.Second))
	})
	return beside, func(p session.Progress) {
		text := describe(p)
		last.Store(&text)
	}, stop
}

// Asking shows how many of a number of servers have answered; see progress. answered reports one server, and
// may be called concurrently.
func Asking(env *Env, g *Globals, total int) (beside *Env, answered, stop func()) {
	var n atomic.Int64
	beside, stop = g.progress(env, func() string { return fmt.Sprintf("asking servers: %d of %d answered", n.Load(), total) })
	return beside, func() { n.Add(1) }, stop
}

// describe formats progress, for example ": 3 of 10, linking".
func describe(p session.Progress) string {
	number := func(f float64) string {
		if math.Abs(f) >= 1e15 {
			return strconv.FormatFloat(f, 'g', 3, 64)
		}
		return strconv.FormatFloat(math.Round(f*100)/100, 'f', -1, 64)
	}
	out := ": " + number(p.Progress)
	if p.Total > 0 {
		out += " of " + number(p.Total)
	}
	if message := printable.Line(p.Message, 60); message != "" {
		out += ", " + message
	}
	return out
}
