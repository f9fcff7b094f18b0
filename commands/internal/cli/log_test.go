package cli

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

// TestMessagesOnTerminal: on a terminal, a record looks like an error; --log-format keeps it a record.
func TestMessagesOnTerminal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		g     Globals
		width int
		want  string
	}{
		"terminal": {Globals{color: "never"}, 0, "mcptrack: warning: docs: cannot follow\\x1b[31m: /x: file does not exist (uris a:b, c:d)\nhint: run mcptrack init\n"},
		"narrow":   {Globals{color: "never"}, 30, "mcptrack: warning: docs:\ncannot follow\\x1b[31m: /x:\nfile does not exist (uris a:b,\nc:d)\nhint: run mcptrack init\n"},
		"coloured": {Globals{}, 0, "\x1b[33mmcptrack: warning:\x1b[0m docs: cannot follow\\x1b[31m: /x: file does not exist (uris a:b, c:d)\n\x1b[36mhint:\x1b[0m run mcptrack init\n"},
		"quiet":    {Globals{level: 8}, 0, ""},
		"text":     {Globals{logFormat: "text"}, 0, "level=WARN msg=\"cannot follow\\\\x1b[31m\" server=docs uris=\"[a:b c:d]\" lists=[] err=\"/x: file does not exist\" hint=\"run mcptrack init\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			env := &Env{Err: &out, ErrTTY: true, Size: func() (int, int) { return c.width, 0 }, LookupEnv: func(string) (string, bool) { return "", false }}
			c.g.Logger(env).With("server", "docs").Warn("cannot follow\x1b[31m", "uris", []string{"a:b", "c:d"}, "lists", []string{}, "err",
				error(&fs.PathError{Op: "open", Path: "/x", Err: errors.New("file does not exist")}), "hint", "run mcptrack init")
			got := out.String()
			if strings.HasPrefix(got, "time=") {
				_, got, _ = strings.Cut(got, " ")
			}
			if got != c.want {
				t.Errorf("\n got %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestReport: on a terminal, an error is wrapped and coloured as a warning is; elsewhere it is one line.
func TestReport(t *testing.T) {
	t.Parallel()
	const pipe = "mcptrack: docs: there is no program \"uvx\" in PATH\\x1b[31m:\n  /a/long/path/that/is/not/wrapped\nhint: install it, or correct \"command\"\n"
	const wrapped = "mcptrack: docs: there is no\nprogram \"uvx\" in PATH\\x1b[31m:\n  /a/long/path/that/is/not/wrapped\nhint: install it, or correct\n\"command\"\n"
	colours := strings.NewReplacer("mcptrack:", "\x1b[31mmcptrack:\x1b[0m", "hint:", "\x1b[36mhint:\x1b[0m")
	for name, c := range map[string]struct {
		color   string
		tty     bool
		noColor string
		want    string
	}{
		"terminal": {"", true, "", colours.Replace(wrapped)},
		"NO_COLOR": {"", true, "1", wrapped},
		"never":    {"never", true, "", wrapped},
		"always":   {"always", false, "", colours.Replace(pipe)},
		"pipe":     {"auto", false, "", pipe},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			env := &Env{Err: &out, ErrTTY: c.tty, Size: func() (int, int) { return 30, 0 }, LookupEnv: func(name string) (string, bool) { return c.noColor, name == "NO_COLOR" }}
			g := Globals{color: c.color}
			g.Report(env, &Failure{Err: errors.New("docs: there is no program \"uvx\" in PATH\x1b[31m"), Places: []string{"/a/long/path/that/is/not/wrapped"}, Hint: `install it, or correct "command"`}, false)
			if got := out.String(); got != c.want {
				t.Errorf("\n got %q\nwant %q", got, c.want)
			}
		})
	}
}
