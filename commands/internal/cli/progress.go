package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/briandowns/spinner"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

// progressLine is a spinner that writes log lines without garbling them.
type progressLine struct {
	*spinner.Spinner
	to    io.Writer
	drawn bool // whether the spinner is drawn on the last line; guarded by the spinner's lock
}

// newSpinner returns a spinner on stderr that calls text for every frame. It is invisible unless
// stderr is a terminal.
func newSpinner(env *Env, g *Globals, text func() string) *progressLine {
	to := spinner.WithWriter(env.Err)
	if f, ok := env.Err.(*os.File); ok {
		to = spinner.WithWriterFile(f) // the spinner library checks whether the file is a terminal
	}
	s := spinner.New(spinner.CharSets[14], 100*time.Millisecond, to)
	if g.Colours(env, true) {
		_ = s.Color("cyan")
	}
	shown := &progressLine{Spinner: s, to: env.Err}
	s.PreUpdate = func(s *spinner.Spinner) { s.Suffix, shown.drawn = " "+text(), true }
	return shown
}

// Write erases the spinner and writes a log line; the next frame is drawn below it.
func (s *progressLine) Write(p []byte) (int, error) {
	s.Lock()
	defer s.Unlock()
	if s.drawn {
		if _, err := io.WriteString(s.to, "\r\x1b[K"); err != nil {
			return 0, err
		}
		s.drawn = false
	}
	return s.to.Write(p)
}

// Stop removes the spinner.
func (s *progressLine) Stop() {
	s.Spinner.Stop()
	s.Lock()
	s.drawn = false
	s.Unlock()
}

// quiet is the delay before a terminal shows that a request is in progress.
const quiet = 300 * time.Millisecond

// progress shows a text on a terminal until stop is called, which may be called more than once. The caller
// must use the environment beside instead of env until then.
func (g *Globals) progress(env *Env, text func() string) (beside *Env, stop func()) {
	if !env.ErrTTY || g.Quiet {
		return env, func() {}
	}
	s := newSpinner(env, g, text)
	started := make(chan struct{}) // closed once the spinner has started
	later := time.AfterFunc(quiet, func() {
		s.Start()
		close(started)
	})
	out := *env
	out.Err = s
	return &out, sync.OnceFunc(func() {
		if !later.Stop() {
			<-started
		}
		s.Stop()
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
