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
		"terminal": {Globals{}, 0, "mcptrack: warning: docs: cannot follow\\x1b[31m: /x: file does not exist (uris a:b, c:d)\nhint: run mcptrack init\n"},
		"narrow":   {Globals{}, 30, "mcptrack: warning: docs:\ncannot follow\\x1b[31m: /x:\nfile does not exist (uris a:b,\nc:d)\nhint: run mcptrack init\n"},
		"quiet":    {Globals{level: 8}, 0, ""},
		"text":     {Globals{logFormat: "text"}, 0, "level=WARN msg=\"cannot follow\\\\x1b[31m\" server=docs uris=\"[a:b c:d]\" lists=[] err=\"/x: file does not exist\" hint=\"run mcptrack init\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			env := &Env{Err: &out, ErrTTY: true, OutTTY: true, Columns: func() int { return c.width }}
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
