package commands

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/briandowns/spinner"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

// newSpinner returns a spinner on stderr. It stays invisible unless stderr is a terminal.
func newSpinner(env *Env, g *globals) *spinner.Spinner {
	to := spinner.WithWriter(env.Err)
	if f, ok := env.Err.(*os.File); ok {
		to = spinner.WithWriterFile(f) // the spinner checks that it is a terminal
	}
	s := spinner.New(spinner.CharSets[14], 100*time.Millisecond, to)
	if g.colours(env, true) {
		_ = s.Color("cyan")
	}
	return s
}

// quiet is how long a request takes before a terminal shows that it is in progress.
const quiet = 300 * time.Millisecond

// waiting shows on a terminal what the command waits for, for how long, and the progress
// that the server reported last, which report records. stop removes the line and may be
// called more than once.
func (g *globals) waiting(env *Env, what string) (report func(session.Progress), stop func()) {
	if !env.ErrTTY || g.quiet {
		return func(session.Progress) {}, func() {}
	}
	var (
		mu    sync.Mutex // guards last and over
		last  string
		over  bool
		began = time.Now()
		s     = newSpinner(env, g)
	)
	s.PreUpdate = func(s *spinner.Spinner) {
		mu.Lock()
		defer mu.Unlock()
		s.Suffix = fmt.Sprintf(" %s%s (%s)", what, last, time.Since(began).Round(time.Second))
	}
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
	return report, func() {
		later.Stop()
		mu.Lock()
		over = true
		mu.Unlock()
		s.Stop()
	}
}

// describe puts progress into words: ": 3 of 10, linking".
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
