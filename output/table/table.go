// Package table displays what servers offer as tables for people.
//
// It is the only package that imports tablewriter, which brings a logger and colour
// libraries that nothing else needs. Every cell is printable text: control characters
// of servers never reach the terminal.
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
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/output/columns"
)

// Options configure tables.
type Options struct {
	Wide bool // all columns, nothing truncated
	// Width is the width of the terminal, to which tables are fitted unless Wide is set; 0: the
	// output is not a terminal, and names and URIs are never cut.
	Width  int
	Colour bool
}

// fits reports whether the table is fitted to a terminal.
func (o Options) fits() bool { return o.Width > 0 && !o.Wide }

// Maximum cell widths, in runes, unless a table is wide.
const (
	narrowText  = 48
	narrowError = 300
)

// narrowServers is the width of a terminal below which the table of servers omits the
// transport.
const narrowServers = 100

// Servers displays one row for each server that was queried.
func Servers(w io.Writer, reports []session.Report, o Options) error {
	head := []string{"Server", "State", "Transport", "Protocol", "Resources", "Templates", "Prompts", "Tools", "Error"}
	if o.Wide {
		head = []string{"Server", "State", "Transport", "Protocol", "Name", "Version", "Tracked", "Resources", "Templates", "Prompts", "Tools", "Error"}
	}
	rows := make([][]string, 0, len(reports))
	for _, r := range reports {
		state, message := r.State(), ""
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
		row := []string{o.cut(r.Server.ID, narrowText), state, string(transport), dash(o.cut(r.Info.ProtocolVersion, narrowText))}
		if o.Wide {
			row = append(row, dash(o.cut(r.Info.ServerName, 0)),
				dash(o.cut(r.Info.ServerVersion, 0)), strconv.FormatBool(r.Server.Tracked()))
		}
		rows = append(rows, append(row, n(catalog.Resources), n(catalog.Templates), n(catalog.Prompts), n(catalog.Tools), message))
	}
	below := make([]string, len(rows))
	if o.fits() { // errors are shown below their rows
		last := len(head) - 1
		head = head[:last]
		for i, row := range rows {
			rows[i], below[i] = row[:last], row[last]
		}
		if o.Width < narrowServers { // -o wide shows it
			head = slices.Delete(head, 2, 3)
			for i, row := range rows {
				rows[i] = slices.Delete(row, 2, 3)
			}
		}
	}
	return o.render(w, head, rows, below)
}

// Items displays one row for each item of one kind.
func Items(w io.Writer, k catalog.Kind, reports []session.Report, o Options) error {
	head := []string{"Server", "Name", "Description"}
	switch k {
	case catalog.Resources:
		head = []string{"Server", "URI", "Name", "Type", "Size"}
	case catalog.Templates:
		head = []string{"Server", "URI Template", "Name", "Type"}
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
				if k == catalog.Events {
					row = append(row, dash(o.cut(delivery(it.Raw), 32)))
				}
				limit := 72
				if o.fits() {
					limit = 0
				}
				description := d.Description
				if why := r.Invalid[it.Key]; k == catalog.Tools && why != "" {
					description = "INVALID (" + why + ") " + description
				}
				row = append(row, o.cut(description, limit))
			}
			if o.Wide && (k == catalog.Resources || k == catalog.Templates) {
				row = append(row, o.cut(d.Description, 0))
			}
			rows = append(rows, row)
		}
	}
	return o.render(w, head, rows, nil)
}

// delivery returns the delivery modes of a type of events.
func delivery(raw json.RawMessage) string {
	var t struct {
		Delivery []string `json:"delivery"`
	}
	_ = json.Unmarshal(raw, &t) // a value of another type has no modes
	return strings.Join(t.Delivery, ", ")
}

// Rows displays arbitrary rows; empty cells become a dash, except in the last column.
func Rows(w io.Writer, head []string, rows [][]string) error {
	shown := make([][]string, 0, len(rows))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cells[i] = printable.Line(cell, narrowError); i < len(row)-1 {
				cells[i] = dash(cells[i])
			}
		}
		shown = append(shown, cells)
	}
	return Options{}.render(w, head, shown, nil)
}

// cut returns printable text for a cell, truncated unless the table is wide.
func (o Options) cut(s string, limit int) string {
	if o.Wide {
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

// render draws without borders: columns that awk can split. below has a text to show below each
// row; nil: there are none.
func (o Options) render(w io.Writer, head []string, rows [][]string, below []string) error {
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
	n := -1 // index of the current row; -1: the head
	for line := range strings.Lines(drawn.String()) {
		line = strings.TrimRight(line, " \n") // without padding that would wrap
		if o.Colour {
			line = paintLine(line, head, rows, n)
		}
		out.WriteString(line + "\n")
		if n >= 0 && n < len(below) && below[n] != "" {
			for _, text := range columns.Wrap(below[n], max(o.Width-4, 20)) {
				out.WriteString("    " + o.paint(red, text) + "\n")
			}
		}
		n++
	}
	_, err := io.WriteString(w, out.String())
	return err
}
