// Package table prints the result of a one-shot command in every format of --output: an [Output] has its
// document, its names, and the tables and texts for people.
//
// Only this package imports tablewriter, whose logger and colour libraries nothing else needs. All
// cells are printable: control characters from servers never reach the terminal.
package table

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/termtext"
)

// Output is what a one-shot command prints.
type Output struct {
	// Document is what JSON and YAML show, and what a template is run for: for each element of an array.
	// Nil means the records of the first table.
	Document any
	// Each is what a template is run for instead of the document; nil means the document.
	Each any
	// Fields are the members that a record may have, besides those that it has, if the records are JSON of
	// others. A template that names another one is an error.
	Fields []string
	// Names are the lines of the format name, whose parts are separated by tabs. Nil means the first column
	// of the first table.
	Names []string
	// Parts are what people see, in this order.
	Parts []Part
}

// Part is a text or a table.
type Part struct {
	text        string // of a table, what is shown in its place
	head        []string
	wide, roomy []string // columns with conditions
	wraps       bool     // the last column
	rows        [][]string
	records     any // nil for a text
}

// Text returns a part with a text and a line break. What the arguments contain must be printable.
func Text(format string, args ...any) Part { return Part{text: fmt.Sprintf(format, args...) + "\n"} }

// Records returns a part with a table that has one row for each record. head has the names of the columns,
// and cells returns the cells of a record for all of them. Cells need not be printable; an empty one is
// shown as a dash, except in the last column. A column named State or Login has states in words, which have
// colours and, like the times in columns named Time or Since, are never truncated. A last column named Error is left out if there is no error, and shown
// below the rows on a terminal.
func Records[T any](records []T, cells func(T) []string, head ...string) Part {
	part := Part{head: head, records: records}
	if records == nil {
		part.records = []T{}
	}
	for _, r := range records {
		part.rows = append(part.rows, cells(r))
	}
	return part
}

// Wide returns the table with columns that only wide tables have.
func (p Part) Wide(names ...string) Part {
	p.wide = append(slices.Clone(p.wide), names...)
	return p
}

// Roomy returns the table with columns that tables on narrow terminals do not have, unless they are wide.
func (p Part) Roomy(names ...string) Part {
	p.roomy = append(slices.Clone(p.roomy), names...)
	return p
}

// Wrapped returns the table with a last column that is wrapped on a terminal, not truncated.
func (p Part) Wrapped() Part {
	p.wraps = true
	return p
}

// Or returns the table or, if it has no rows, one with a text in place of its head; see [Text].
func (p Part) Or(format string, args ...any) Part {
	if len(p.rows) == 0 {
		p.text = Text(format, args...).text
	}
	return p
}

// Options configure how people see an output.
type Options struct {
	Wide bool // show all columns and truncate nothing
	// Width is the terminal width in columns. Tables are fitted to it unless Wide is set. 0 means
	// that the output is not a terminal; nothing is then truncated.
	Width  int
	Colour bool
}

// fits reports whether tables are fitted to a terminal.
func (o Options) fits() bool { return o.Width > 0 && !o.Wide }

// narrow is the terminal width below which tables omit the less important columns.
const narrow = 100

// longest is the maximum length of a cell of a fitted table in runes.
const longest = 600

// Write writes an output in a format.
func Write(w io.Writer, f document.Format, out Output, o Options) error {
	first := slices.IndexFunc(out.Parts, func(p Part) bool { return p.records != nil })
	if out.Document == nil && first >= 0 {
		out.Document = out.Parts[first].records
	}
	switch {
	case f.Table():
		for _, p := range out.Parts {
			if err := p.write(w, o); err != nil {
				return err
			}
		}
		return nil
	case f.Template != nil && out.Each != nil:
		return document.Write(w, f, out.Each, out.Fields...)
	case f.Name != "name":
		return document.Write(w, f, out.Document, out.Fields...)
	}
	if out.Names == nil && first >= 0 {
		for _, row := range out.Parts[first].rows {
			out.Names = append(out.Names, row[0])
		}
	}
	var lines strings.Builder
	for _, name := range out.Names {
		for i, part := range strings.Split(name, "\t") {
			if i > 0 {
				lines.WriteByte('\t')
			}
			lines.WriteString(printable.Line(part, 0))
		}
		lines.WriteByte('\n')
	}
	_, err := io.WriteString(w, lines.String())
	return err
}

// write writes a text, or borderless columns.
func (p Part) write(w io.Writer, o Options) error {
	if p.records == nil || p.text != "" {
		_, err := io.WriteString(w, printable.Lines(p.text))
		return err
	}
	head, rows, below := p.shown(o)
	var more [][]string // further lines of the last cell of each row
	if o.fits() {
		more = fit(head, rows, o.Width, p.wraps)
	}
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
	paint := func(c termtext.Colour, text string) string {
		if !o.Colour {
			return text
		}
		return c.Paint(text)
	}
	var out strings.Builder
	widths := widthsOf(head, rows)
	indent := 0 // of the last column
	for _, w := range widths[:len(widths)-1] {
		indent += w + 2
	}
	n := -1 // row index; -1 is the header
	for line := range strings.Lines(drawn.String()) {
		line = strings.TrimRight(line, " \n") // the terminal would wrap trailing padding
		switch {
		case n < 0:
			line = paint(termtext.Bold, line)
		case n < len(rows):
			before := ""
			for i, cell := range rows[n] {
				if rest, found := strings.CutPrefix(line, before+cell); found && isState(head[i]) {
					line = before + paint(stateColour(cell), cell) + rest
					break
				}
				before += termtext.Pad(cell, widths[i]) + "  "
			}
		}
		out.WriteString(line + "\n")
		if n >= 0 && n < len(more) {
			for _, text := range more[n] {
				out.WriteString(strings.Repeat(" ", indent) + text + "\n")
			}
		}
		if n >= 0 && n < len(below) {
			for _, text := range termtext.Wrap(below[n], max(o.Width-4, 20)) {
				out.WriteString("    " + paint(termtext.Red, text) + "\n")
			}
		}
		n++
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// shown returns the columns and the cells of a table, and the texts that are shown below its rows.
func (p Part) shown(o Options) (head []string, rows [][]string, below []string) {
	rows = make([][]string, len(p.rows))
	limit := 0
	if o.fits() {
		limit = longest
	}
	for i, name := range p.head {
		last := i == len(p.head)-1
		switch {
		case slices.Contains(p.wide, name) && !o.Wide, slices.Contains(p.roomy, name) && o.fits() && o.Width < narrow:
			continue
		case last && name == "Error":
			errs := make([]string, len(p.rows))
			for n, row := range p.rows {
				errs[n] = printable.Line(row[i], limit)
			}
			if o.fits() {
				below = errs
			}
			if o.fits() || strings.Join(errs, "") == "" {
				continue
			}
		}
		head = append(head, name)
		for n, row := range p.rows {
			cell := printable.Line(row[i], limit)
			if cell == "" && !last {
				cell = "-"
			}
			rows[n] = append(rows[n], cell)
		}
	}
	return head, rows, below
}

// widthsOf returns the widths of columns.
func widthsOf(head []string, rows [][]string) []int {
	widths := make([]int, len(head))
	for i := range head {
		for _, row := range append([][]string{head}, rows...) {
			widths[i] = max(widths[i], termtext.Width(row[i]))
		}
	}
	return widths
}

// minColumn is the minimum width of a column that is narrowed to fit.
const minColumn = 10

// fit truncates cells so that the table fits the terminal. It narrows the widest column first, and
// truncates ids and URIs in the middle and other text at the end. If the last column wraps, fit returns what
// follows the first line of its cells.
func fit(head []string, rows [][]string, width int, wraps bool) (more [][]string) {
	widths, total := widthsOf(head, rows), 2*(len(head)-1)
	for _, w := range widths {
		total += w
	}
	for ; total > width; total-- {
		widest := -1
		for i, w := range widths {
			if whole := isState(head[i]) || head[i] == "Time" || head[i] == "Since"; w > minColumn && !whole && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	more = make([][]string, len(rows))
	for n, row := range rows {
		for i := range row {
			if lines := termtext.Wrap(row[i], widths[i]); wraps && i == len(row)-1 && len(lines) > 0 {
				row[i], more[n] = lines[0], lines[1:]
			} else if i == 0 || strings.HasPrefix(head[i], "URI") {
				row[i] = termtext.Middle(row[i], widths[i])
			} else {
				row[i] = termtext.End(row[i], widths[i])
			}
		}
	}
	return more
}

// isState reports whether a column contains states.
func isState(name string) bool { return name == "State" || name == "Login" }

// stateColour returns the colour for a state in words: of a server, a login, a webhook or a check.
func stateColour(words string) termtext.Colour {
	switch words {
	case "logged in", "active", "ok":
		return termtext.Green
	case "refused", "expired", "failing", "error":
		return termtext.Red
	case "not logged in", "switched off", "warning":
		return termtext.Yellow
	case event.Waking:
		return termtext.Cyan
	}
	for _, s := range append(event.States(), event.Failed) {
		if said, tone := s.Said(""); said == words {
			return termtext.Toned(tone)
		}
	}
	return termtext.Grey
}
