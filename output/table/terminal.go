package table

import (
	"strings"

	"github.com/mcptrack/mcptrack/output/columns"
)

// minColumn is the least width to which a column is cut.
const minColumn = 10

// fit cuts cells so that the table fits the terminal: it narrows the widest columns first, and
// cuts URIs in the middle and other texts at the end.
func (o Options) fit(head []string, rows [][]string) {
	if !o.fits() || len(rows) == 0 {
		return
	}
	widths := make([]int, len(head))
	for i := range head {
		for _, row := range append([][]string{head}, rows...) {
			widths[i] = max(widths[i], columns.Width(row[i]))
		}
	}
	total := 2 * (len(head) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > o.Width; total-- {
		widest := -1
		for i, w := range widths {
			if w > minColumn && head[i] != "State" && (widest < 0 || w > widths[widest]) {
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
				row[i] = columns.Middle(row[i], widths[i])
			} else {
				row[i] = columns.End(row[i], widths[i])
			}
		}
	}
}

const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	grey   = "90"
)

func (o Options) paint(colour, s string) string {
	if !o.Colour {
		return s
	}
	return paint(colour, s)
}

func paint(colour, s string) string { return "\x1b[" + colour + "m" + s + "\x1b[0m" }

// paintLine colours the head of a table, and the state in a row of servers. n is the index of
// the row, -1 for the head.
func paintLine(line string, head []string, rows [][]string, n int) string {
	if n < 0 {
		return paint(bold, line)
	}
	if n >= len(rows) || len(head) < 2 || head[1] != "State" {
		return line
	}
	first := columns.Width(head[0])
	for _, row := range rows {
		first = max(first, columns.Width(row[0]))
	}
	state := rows[n][1]
	before := columns.Pad(rows[n][0], first) + "  "
	if !strings.HasPrefix(line, before+state) {
		return line
	}
	colour := map[string]string{"ready": green, "failed": red, "unconfigured": yellow, "disabled": grey}[state]
	if colour == "" {
		return line
	}
	return before + paint(colour, state) + line[len(before)+len(state):]
}
