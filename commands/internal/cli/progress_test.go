package cli

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// TestProgressBesideLog: a log line replaces progress on the terminal, and does not follow it on its line.
func TestProgressBesideLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		env := &Env{Err: &out, ErrTTY: true, Size: func() (int, int) { return 10, 0 }, LookupEnv: func(string) (string, bool) { return "", false }}
		g := &Globals{color: "never"}
		beside, stop := g.progress(env, func() (string, string) { return "asking servers", "" })
		log := func(text string) { _, _ = io.WriteString(beside.Err, text+"\n") }
		log("first")
		time.Sleep(quiet)
		synctest.Wait()
		log("second")
		log("third")
		time.Sleep(2 * frame)
		synctest.Wait()
		stop()
		stop()
		log("fourth")
		if got, want := out.String(), "first\n⠋ asking…\r\x1b[Ksecond\nthird\n⠙ asking…\r\x1b[K⠹ asking…\r\x1b[Kfourth\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestAsking: the line names the servers that have not answered, and is shortened before their number.
func TestAsking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		env := &Env{Err: &out, ErrTTY: true, Size: func() (int, int) { return 32, 0 }, LookupEnv: func(string) (string, bool) { return "", false }}
		_, answered, stop := Asking(env, &Globals{color: "never"}, []config.Server{{ID: "github"}, {ID: "docs"}, {ID: "slow\x1b"}})
		time.Sleep(quiet)
		synctest.Wait()
		answered("docs")
		time.Sleep(frame)
		synctest.Wait()
		stop()
		if got, want := out.String(), "⠋ waiting for github,… (3 of 3)\r\x1b[K⠙ waiting for github,… (2 of 3)\r\x1b[K"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
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
