package cli

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
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

// progress shows a text on a terminal until stop is called, which may be called more than once: what is
// shortened to the width of the terminal, end is not. The caller must use the environment beside instead of env
// until then.
func (g *Globals) progress(env *Env, text func() (what, end string)) (beside *Env, stop func()) {
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
			size := len("⠋")
			what, end := text()
			if width := env.errWidth(); width > 0 {
				what = termtext.End(what, max(width-3-len(end), 1))
			}
			_ = s.put(colour.Paint(signs[:size])+" "+what+end, true)
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
	beside, stop = g.progress(env, func() (string, string) {
		return what + *last.Load(), fmt.Sprintf(" (%s)", time.Since(began).Round(time.Second))
	})
	return beside, func(p session.Progress) {
		text := describe(p)
		last.Store(&text)
	}, stop
}

// Asking shows which servers have not answered; see progress. answered reports one server, and may be called
// concurrently.
func Asking(env *Env, g *Globals, servers []config.Server) (beside *Env, answered func(id string), stop func()) {
	var mu sync.Mutex
	var left []string
	for _, srv := range servers {
		left = append(left, srv.ID)
	}
	beside, stop = g.progress(env, func() (string, string) {
		mu.Lock()
		defer mu.Unlock()
		if len(left) == 0 {
			return "finishing", ""
		}
		return "waiting for " + printable.Line(strings.Join(left, ", "), 1000), fmt.Sprintf(" (%d of %d)", len(left), len(servers))
	})
	return beside, func(id string) {
		mu.Lock()
		defer mu.Unlock()
		left = slices.DeleteFunc(left, func(other string) bool { return other == id })
	}, stop
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
