package table

import (
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/termtext"
)

type record struct {
	ID    string `json:"id"`
	State string `json:"state,omitempty"`
	N     int    `json:"n"`
	Err   string `json:"error,omitempty"`
}

func of(records ...record) Part {
	return Records(records, func(r record) []string { return []string{r.ID, r.State, "stdio", strconv.Itoa(r.N), r.Err} },
		"URI", "State", "Kind", "N", "Error").Wide("N").Roomy("Kind")
}

func written(t *testing.T, format string, out Output, o Options) string {
	t.Helper()
	f, err := document.ParseFormat(format)
	if err != nil {
		t.Fatal(err)
	}
	o.Wide = f.Wide()
	var b strings.Builder
	if err := Write(&b, f, out, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The same records in all formats: hidden characters are shown, empty cells are dashes except at the end of
// a row, and names are the first column.
func TestFormats(t *testing.T) {
	out := Output{Parts: []Part{Text("2 things"), of(record{"ガイド", "ready", 1, ""}, record{"b", "", 2, "evil \x1b[31m\n\u202ename"}), Text("")}}
	for format, want := range map[string]string{
		"table": "2 things\nURI     STATE  KIND   ERROR\nガイド  ready  stdio\nb       -      stdio  evil \\x1b[31m\\n\\u202ename\n\n",
		"wide":  "2 things\nURI     STATE  KIND   N  ERROR\nガイド  ready  stdio  1\nb       -      stdio  2  evil \\x1b[31m\\n\\u202ename\n\n",
		"name":  "ガイド\nb\n",
		"json": "[\n  {\n    \"id\": \"ガイド\",\n    \"state\": \"ready\",\n    \"n\": 1\n  },\n  {\n    \"id\": \"b\",\n    \"n\": 2,\n" +
			"    \"error\": \"evil \\u001b[31m\\n\\u202ename\"\n  }\n]\n",
		"template={{.id}} {{.n}}": "ガイド 1\nb 2\n",
	} {
		got := written(t, format, out, Options{})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", format, diff)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf) }) {
			t.Errorf("%s: hidden characters in %q", format, got)
		}
	}
	if got := written(t, "json", Output{Parts: []Part{of()}}, Options{}); got != "[]\n" {
		t.Errorf("no records are %q", got)
	}
	none := Output{Parts: []Part{of().Or("no %s", "records"), of(record{ID: "a"}).Or("no records")}}
	if got := written(t, "table", none, Options{}); !strings.HasPrefix(got, "no records\nURI") || strings.Count(got, "no records") != 1 {
		t.Errorf("no records are\n%s", got)
	}
	if got := written(t, "json", none, Options{}); got != "[]\n" {
		t.Errorf("no records are %q", got)
	}
	out.Document, out.Each, out.Names = map[string]int{"all": 2}, []record{{ID: "each"}}, []string{"n\n1"}
	for format, want := range map[string]string{"json": "{\n  \"all\": 2\n}\n", "template={{.id}}": "each\n", "name": "n\\n1\n"} {
		if got := written(t, format, out, Options{}); got != want {
			t.Errorf("%s: %q, want %q", format, got, want)
		}
	}
}

// On a terminal no line is wider than it, unless the table is wide: URIs keep their ends, errors are below
// their rows, states are whole and have colours. In a pipe nothing is cut, whatever its length.
func TestFits(t *testing.T) {
	uri := "file:///" + strings.Repeat("deep/", 60) + "end.md"
	long := strings.Repeat("it does not answer and ", 20) + "that is it"
	out := Output{Parts: []Part{of(record{"👩\u200d👩\u200d👧 family", "ready", 0, ""}, record{uri, "needs login", 0, long})}}
	for _, width := range []int{40, 80, 120} {
		got := written(t, "table", out, Options{Width: width})
		for line := range strings.Lines(got) {
			if termtext.Width(strings.TrimSuffix(line, "\n")) > width {
				t.Errorf("wider than %d: %q", width, line)
			}
		}
		if roomy := strings.Contains(got, "KIND"); roomy != (width >= narrow) || strings.Contains(got, "ERROR") || !strings.Contains(got, "…") ||
			!strings.Contains(got, "/end.md  needs login") || !strings.Contains(got, "\n    it does not") || !strings.Contains(got, "that is it\n") || !strings.Contains(got, "👩\u200d👩\u200d👧 family") {
			t.Errorf("%d columns:\n%s", width, got)
		}
	}
	for name, got := range map[string]string{"pipe": written(t, "table", out, Options{}), "wide": written(t, "wide", out, Options{Width: 80})} {
		if lines := strings.Split(got, "\n"); len(lines) != 4 || !strings.HasPrefix(lines[2], uri) || !strings.HasSuffix(lines[2], long) {
			t.Errorf("%s: cut or wrapped:\n%s", name, got)
		}
	}
	out.Parts[0] = of(record{"ガイド", "ready", 0, ""}, record{uri, "needs login", 0, long})
	painted := written(t, "table", out, Options{Width: 80, Colour: true})
	for _, want := range []string{"\x1b[1mURI", "\x1b[32mready\x1b[0m", "\x1b[31mneeds login\x1b[0m\n", "    \x1b[31mit does not"} {
		if !strings.Contains(painted, want) {
			t.Errorf("no %q in\n%s", want, painted)
		}
	}
	if plain := written(t, "table", out, Options{Width: 80}); unpainted(painted) != plain {
		t.Errorf("colours change the layout:\n%s\n%s", painted, plain)
	}
}

// Times are whole on a narrow terminal.
func TestWholeTimes(t *testing.T) {
	part := Records([]string{"2026-11-30 04:06:13"}, func(at string) []string { return []string{at, "a-long-name", at} }, "Time", "Name", "Since")
	if got := written(t, "table", Output{Parts: []Part{part}}, Options{Width: 30}); strings.Count(got, "2026-11-30 04:06:13") != 2 || !strings.Contains(got, "a-long-na…") {
		t.Errorf("got\n%s", got)
	}
}

func unpainted(s string) string {
	for _, c := range []string{"0", "1", "31", "32", "33"} {
		s = strings.ReplaceAll(s, "\x1b["+c+"m", "")
	}
	return s
}

func TestWrapped(t *testing.T) {
	rows := [][2]string{{"a", "one two three four five"}, {"b", ""}, {"c", "six"}}
	part := Records(rows, func(r [2]string) []string { return r[:] }, "Name", "Detail").Wrapped()
	if got, want := written(t, "table", Output{Parts: []Part{part}}, Options{Width: 20}), "NAME  DETAIL\na     one two three\n      four five\nb\nc     six\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
