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

// Spinner shows progress on stderr if it is a terminal, and writes log lines without garbling them.
type Spinner struct {
	*spinner.Spinner
	to    io.Writer
	drawn bool // whether the spinner is drawn on the last line; guarded by the spinner's lock
}

// NewSpinner returns a spinner on stderr that calls text for every frame. It is invisible unless
// stderr is a terminal.
func NewSpinner(env *Env, g *Globals, text func() string) *Spinner {
	to := spinner.WithWriter(env.Err)
	if f, ok := env.Err.(*os.File); ok {
		to = spinner.WithWriterFile(f) // the spinner library checks whether the file is a terminal
	}
	s := spinner.New(spinner.CharSets[14], 100*time.Millisecond, to)
	if g.Colours(env, true) {
		_ = s.Color("cyan")
	}
	shown := &Spinner{Spinner: s, to: env.Err}
	s.PreUpdate = func(s *spinner.Spinner) { s.Suffix, shown.drawn = " "+text(), true }
	return shown
}

// Beside returns an environment whose stderr can be used while the spinner runs.
func (s *Spinner) Beside(env *Env) *Env {
	out := *env
	out.Err = s
	return &out
}

// Write erases the spinner and writes a log line; the next frame is drawn below it.
func (s *Spinner) Write(p []byte) (int, error) {
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

// Stop removes the spinner. It may be called more than once.
func (s *Spinner) Stop() {
	s.Spinner.Stop()
	s.Lock()
	s.drawn = false
	s.Unlock()
}

// quiet is the delay before a terminal shows that a request is in progress.
const quiet = 300 * time.Millisecond

// Waiting shows on a terminal what the command is waiting for, for how long, and the last progress
// passed to report. The caller must use the environment beside instead of env until it calls stop,
// which removes the line. stop may be called more than once.
func (g *Globals) Waiting(env *Env, what string) (beside *Env, report func(session.Progress), stop func()) {
	if !env.ErrTTY || g.Quiet {
		return env, func(session.Progress) {}, func() {}
	}
	var (
		mu    sync.Mutex // guards last and over
		last  string
		over  bool
		began = time.Now()
	)
	s := NewSpinner(env, g, func() string {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprintf("%s%s (%s)", what, last, time.Since(began).Round(time.Second))
	})
	later := time.AfterFunc(quiet, func() {
		mu.Lock()
		show := !over
		mu.Unlock()
		if show {
			s.Start()
		}
	})
	report = func(p session.Progress) {
		mu.Lock()
		defer mu.Unlock()
		last = describe(p)
	}
	return s.Beside(env), report, func() {
		later.Stop()
		mu.Lock()
		over = true
		mu.Unlock()
		s.Spinner.Stop()
	}
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

// Asking shows on a terminal how many of a number of servers have answered. The caller must use the
// environment beside instead of env until it calls stop, which removes the line. answered reports one
// server, and may be called concurrently; stop may be called more than once.
func Asking(env *Env, g *Globals, total int) (beside *Env, answered, stop func()) {
	if !env.ErrTTY || g.Quiet || total == 0 {
		return env, func() {}, func() {}
	}
	var n atomic.Int64
	s := NewSpinner(env, g, func() string { return fmt.Sprintf("asking servers: %d of %d answered", n.Load(), total) })
	s.Start()
	return s.Beside(env), func() { n.Add(1) }, s.Stop
}
