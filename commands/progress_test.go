package commands

import (
	"context"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// TestSpinnerBesideLog: a line that is logged while a spinner is on the terminal replaces it,
// and does not follow it on its line.
func TestSpinnerBesideLog(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	env := &Env{Err: &out, LookupEnv: func(string) (string, bool) { return "", false }}
	g := &globals{color: "never", logFormat: "text"}
	s := newSpinner(env, g, func() string { return "asking" })
	log := g.logger(s.beside(env))
	frame := func() { // as the spinner draws one; it does not without a terminal
		s.Lock()
		defer s.Unlock()
		s.PreUpdate(s.Spinner)
		out.WriteString(s.Suffix)
	}
	log.Warn("first")
	frame()
	log.Warn("second")
	log.Warn("third")
	frame()
	s.stop()
	out.WriteString("\n")
	log.Warn("fourth")
	var got []string
	for line := range strings.Lines(out.String()) {
		at, message := strings.Index(line, "time="), strings.Index(line, "msg=")
		if message < 0 {
			at, message = len(line), len(line)
		}
		got = append(got, line[:at]+line[message:])
	}
	want := []string{"msg=first\n", " asking\r\x1b[Kmsg=second\n", "msg=third\n", " asking\n", "msg=fourth\n"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLogNamesServer: what is logged about a server, such as noise on its stdout, names it.
func TestLogNamesServer(t *testing.T) {
	b := newBench(t)
	dial := b.Dial
	b.Dial = func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
		opts.Logger.Warn("noise")
		return dial(ctx, srv, opts)
	}
	for _, args := range [][]string{{"list"}, {"read", "notes", "note://none"}} {
		b.run(t, args...)
		if !strings.Contains(b.err.String(), "msg=noise server=notes\n") {
			t.Errorf("%v logs:\n%s", args, &b.err)
		}
	}
}
