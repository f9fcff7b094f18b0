package cli

import (
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/session"
)

// TestSpinnerBesideLog: a log line replaces a spinner on the terminal, and does not follow it on its line.
func TestSpinnerBesideLog(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	env := &Env{Err: &out, LookupEnv: func(string) (string, bool) { return "", false }}
	g := &Globals{color: "never", logFormat: "text"}
	s := newSpinner(env, g, func() string { return "asking" })
	log := g.Logger(&Env{Err: s, LookupEnv: env.LookupEnv})
	frame := func() { // draws like the spinner, which draws nothing without a terminal
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
	s.Stop()
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

func TestDescribeProgress(t *testing.T) {
	for want, p := range map[string]session.Progress{
		": 3 of 10, linking":     {Progress: 3, Total: 10, Message: "linking"},
		": 0.33":                 {Progress: 1.0 / 3},
		`: 1, a\nb\x1b[31m`:      {Progress: 1, Message: "a\nb\x1b[31m"},
		": 1234567890 of 2e+300": {Progress: 1234567890, Total: 2e300},
	} {
		if got := describe(p); got != want {
			t.Errorf("%+v is %q, want %q", p, got, want)
		}
	}
}
