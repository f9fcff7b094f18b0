// Package table writes the resources, tools and other items of servers as human-readable tables.
//
// Only this package imports tablewriter, whose logger and colour libraries nothing else needs. All
// cells are printable: control characters from servers never reach the terminal.
package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/skill"
	"github.com/mcptrack/mcptrack/output/termtext"
)

// Options configure tables.
type Options struct {
	Wide bool // show all columns and truncate nothing
	// Width is the terminal width in columns. Tables are fitted to it unless Wide is set. 0 means
	// that the output is not a terminal; nothing is then truncated.
	Width  int
	Colour bool
}

// fits reports whether tables are fitted to a terminal.
func (o Options) fits() bool { return o.Width > 0 && !o.Wide }

// Maximum lengths of texts on a terminal in runes, unless Options.Wide is set.
const (
	narrowText  = 48
	narrowError = 600
)

// narrow is the terminal width below which tables of servers omit some columns.
const narrow = 100

// Narrow reports whether tables of servers must omit the less important columns to fit.
func (o Options) Narrow() bool { return o.fits() && o.Width < narrow }

// Servers writes a table with one row per server.
func Servers(w io.Writer, reports []session.Report, o Options) error {
	head := []string{"Server", "State", "Transport", "Protocol"}
	if o.Wide {
		head = append(head, "Name", "Version", "Tracked")
	}
	kinds := []catalog.Kind{catalog.Resources, catalog.Templates, catalog.Prompts, catalog.Tools}
	if o.Wide || slices.ContainsFunc(reports, func(r session.Report) bool { return len(r.Lists[catalog.Skills]) > 0 }) {
		kinds = append(kinds, catalog.Skills) // few servers have any
	}
	for _, k := range kinds {
		head = append(head, string(k))
	}
	head = append(head, "Error")
	rows := make([][]string, 0, len(reports))
	for _, r := range reports {
		message := ""
		if r.Err != nil {
			message = o.cut(r.Err.Error(), narrowError)
		}
		n := func(k catalog.Kind) string {
			list, ok := r.Lists[k]
			if !ok {
				return "-"
			}
			return strconv.Itoa(len(list))
		}
		transport := r.Info.Transport
		if transport == "" {
			transport = r.Server.Transport
		}
		row := []string{o.cut(r.Server.ID, narrowText), r.State().Words(), string(transport), dash(o.cut(r.Info.ProtocolVersion, narrowText))}
		if o.Wide {
			row = append(row, dash(o.cut(r.Info.ServerName, 0)),
				dash(o.cut(r.Info.ServerVersion, 0)), strconv.FormatBool(r.Server.Tracked()))
		}
		for _, k := range kinds {
			row = append(row, n(k))
		}
		rows = append(rows, append(row, message))
	}
	if o.Narrow() { // -o wide still shows the transport
		head = slices.Delete(head, 2, 3)
		for i, row := range rows {
			rows[i] = slices.Delete(row, 2, 3)
		}
	}
	return o.render(w, head, rows)
}

// Items writes a table with one row per item of a kind.
func Items(w io.Writer, k catalog.Kind, reports []session.Report, o Options) error {
	head := []string{"Server", "Name", "Description"}
	switch k {
	case catalog.Resources:
		head = []string{"Server", "URI", "Name", "Type", "Size"}
	case catalog.Templates:
		head = []string{"Server", "URI Template", "Name", "Type"}
	case catalog.Skills:
		head = []string{"Server", "URI", "Name", "Files", "Size", "Description"}
	case catalog.Events:
		head = []string{"Server", "Event", "Delivery", "Description"}
	}
	if o.Wide && (k == catalog.Resources || k == catalog.Templates) {
		head = append(head, "Description")
	}
	var rows [][]string
	for _, r := range reports {
		for _, it := range r.Lists[k] {
			d := it.Describe()
			row := []string{o.cut(r.Server.ID, 24), o.cut(it.Key, 0)}
			switch k {
			case catalog.Resources:
				size := "-"
				if d.Size != nil {
					size = strconv.FormatInt(*d.Size, 10)
				}
				row = append(row, o.cut(d.Name, 32), dash(o.cut(d.MimeType, 32)), size)
			case catalog.Templates:
				row = append(row, o.cut(d.Name, 32), dash(o.cut(d.MimeType, 32)))
			default:
				if k == catalog.Skills {
					row = append(append(row, o.cut(d.Name, 32)), files(it.Raw)...)
				}
				if k == catalog.Events {
					row = append(row, dash(o.cut(delivery(it.Raw), 32)))
				}
				description := d.Description
				if why := r.Invalid[it.Key]; k == catalog.Tools && why != "" {
					description = "INVALID (" + why + ") " + description
				}
				row = append(row, o.cut(description, 0))
			}
			if o.Wide && (k == catalog.Resources || k == catalog.Templates) {
				row = append(row, o.cut(d.Description, 0))
			}
			rows = append(rows, row)
		}
	}
	return o.render(w, head, rows)
}

// files returns the cells for the number and the size of a skill's files.
func files(raw json.RawMessage) []string {
	e, err := skill.Parse(raw)
	switch {
	case err != nil:
		return []string{"-", "-"}
	case e.Dynamic():
		return []string{"generated", "-"}
	}
	return []string{strconv.Itoa(len(e.Files)), strconv.FormatInt(e.Size(), 10)}
}

// delivery returns the delivery modes that an event type supports.
func delivery(raw json.RawMessage) string {
	var t struct {
		Delivery []string `json:"delivery"`
	}
	_ = json.Unmarshal(raw, &t) // a malformed event type has no modes
	return strings.Join(t.Delivery, ", ")
}

// Rows writes a table of arbitrary rows without colours. It truncates nothing.
func Rows(w io.Writer, head []string, rows [][]string) error { return Options{}.Rows(w, head, rows) }

// Rows writes a table of arbitrary rows. Empty cells become a dash, except in the last column. Cells
// of a column State or Login are coloured.
func (o Options) Rows(w io.Writer, head []string, rows [][]string) error {
	shown := make([][]string, 0, len(rows))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cells[i] = o.cut(cell, narrowError); i < len(row)-1 {
				cells[i] = dash(cells[i])
			}
		}
		shown = append(shown, cells)
	}
	return o.render(w, head, shown)
}

// cut returns s as printable text for a cell, truncated to limit if the table is fitted.
func (o Options) cut(s string, limit int) string {
	if !o.fits() {
		limit = 0
	}
	return printable.Line(s, limit)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// render writes borderless columns. If the table is fitted, the errors in its last column are shown
// below their rows instead.
func (o Options) render(w io.Writer, head []string, rows [][]string) error {
	below := make([]string, len(rows))
	if last := len(head) - 1; o.fits() && head[last] == "Error" {
		head = head[:last]
		for i, row := range rows {
			rows[i], below[i] = row[:last], row[last]
		}
	}
	o.fit(head, rows)
	var drawn bytes.Buffer
	t := tablewriter.NewTable(&drawn,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders: tw.BorderNone,
			Settings: tw.Settings{
				Separators: tw.SeparatorsNone,
				Lines:      tw.LinesNone,
			},
		})),
		tablewriter.WithHeaderAlignment(tw.AlignLeft),
		tablewriter.WithRowAlignment(tw.AlignLeft),
		tablewriter.WithHeaderAutoFormat(tw.On),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithPadding(tw.Padding{Left: tw.Empty, Right: "  ", Overwrite: true}),
	)
	t.Header(head)
	if err := t.Bulk(rows); err != nil {
		return fmt.Errorf("draw table: %w", err)
	}
	if err := t.Render(); err != nil {
		return fmt.Errorf("draw table: %w", err)
	}
	var out strings.Builder
	n := -1 // row index; -1 is the header
	for line := range strings.Lines(drawn.String()) {
		line = strings.TrimRight(line, " \n") // the terminal would wrap trailing padding
		if o.Colour {
			line = paintLine(line, head, rows, n)
		}
		out.WriteString(line + "\n")
		if n >= 0 && n < len(below) {
			for _, text := range termtext.Wrap(below[n], max(o.Width-4, 20)) {
				if o.Colour {
					text = termtext.Red.Paint(text)
				}
				out.WriteString("    " + text + "\n")
			}
		}
		n++
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// minColumn is the minimum width of a column that is narrowed to fit.
const minColumn = 10

// fit truncates cells so that the table fits the terminal. It narrows the widest column first, and
// truncates ids and URIs in the middle and other text at the end.
func (o Options) fit(head []string, rows [][]string) {
	if !o.fits() || len(rows) == 0 {
		return
	}
	widths := make([]int, len(head))
	for i := range head {
		for _, row := range append([][]string{head}, rows...) {
			widths[i] = max(widths[i], termtext.Width(row[i]))
		}
	}
	total := 2 * (len(head) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > o.Width; total-- {
		widest := -1
		for i, w := range widths {
			if w > minColumn && !isState(head[i]) && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	for _, row := range rows {
		for i := range row {
			if i == 0 || strings.HasPrefix(head[i], "URI") {
				row[i] = termtext.Middle(row[i], widths[i])
			} else {
				row[i] = termtext.End(row[i], widths[i])
			}
		}
	}
}

// isState reports whether a column contains states, which are coloured and never truncated.
func isState(heading string) bool { return heading == "State" || heading == "Login" }

// stateColour returns the colour for a state in words: of a server, a login or a webhook.
func stateColour(words string) termtext.Colour {
	switch words {
	case event.Ready.Words(), "logged in", "active":
		return termtext.Green
	case event.Failed.Words(), event.Backoff.Words(), "refused", "expired", "failing":
		return termtext.Red
	case event.NeedsAuth.Words(), event.Unconfigured.Words(), event.Unapproved.Words(), "not logged in", "suspended":
		return termtext.Yellow
	case event.Pending.Words(), event.Connecting.Words():
		return termtext.Cyan
	case event.Disabled.Words(), event.Stopping.Words(), event.Unsupported.Words():
		return termtext.Grey
	}
	return ""
}

// paintLine colours the header of a table, and the state in a row whose second column contains
// states. n is the row index, -1 for the header.
func paintLine(line string, head []string, rows [][]string, n int) string {
	if n < 0 {
		return termtext.Bold.Paint(line)
	}
	if n >= len(rows) || len(head) < 2 || !isState(head[1]) {
		return line
	}
	first := termtext.Width(head[0])
	for _, row := range rows {
		first = max(first, termtext.Width(row[0]))
	}
	state := rows[n][1]
	before := termtext.Pad(rows[n][0], first) + "  "
	if !strings.HasPrefix(line, before+state) {
		return line
	}
	return before + stateColour(state).Paint(state) + line[len(before)+len(state):]
}
