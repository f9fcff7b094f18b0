package tree

import (
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// A Statement is one statement of a TOML document: the header of a table, or a key with its value.
type Statement struct {
	// Path contains the names of the key, preceded by those of the table to which it belongs. The name of an array
	// of tables is followed by the index of the table.
	Path   []string
	Header bool // the statement is [NAME] or [[NAME]]
	// From and To are the offsets of the statement without indentation, comment and line end.
	From, To int
	// Keys contains the offset of each name that the statement itself has: the last names of Path.
	Keys []int
}

// Statements returns the statements of a TOML document in file order.
func (s *Source) Statements() ([]Statement, *Error) {
	if _, err := s.Parse(TOML); err != nil {
		return nil, err
	}
	var all []Statement
	var table []string
	tables := map[string]int{} // how many tables the array at a path has so far
	var parser unstable.Parser
	parser.Reset(s.text)
	for parser.NextExpression() {
		e := parser.Expression()
		var st Statement
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			st.Header = true
		case unstable.KeyValue:
			st.Path = append(st.Path, table...)
		default:
			continue
		}
		for it := e.Key(); it.Next(); {
			st.Path = append(st.Path, string(it.Node().Data))
			st.Keys = append(st.Keys, int(it.Node().Raw.Offset))
			array := strings.Join(st.Path, "\x00")
			if e.Kind == unstable.ArrayTable && it.IsLast() {
				tables[array]++
			}
			if n := tables[array]; st.Header && n > 0 {
				st.Path = append(st.Path, strconv.Itoa(n-1))
			}
		}
		st.From = st.Keys[0]
		for st.Header && s.text[st.From] != '[' || st.From > 0 && s.text[st.From-1] == '[' {
			st.From--
		}
		if st.Header {
			table = st.Path
		}
		st.To = s.EndOfTOML(st.From)
		all = append(all, st)
	}
	return all, nil
}

// EndOfTOML returns the offset after the TOML value, or the statement, at an offset. The value ends
// before a comma, a closing bracket, a comment or a line end that is not part of it.
func (s *Source) EndOfTOML(from int) int {
	t, depth, end := s.text, 0, from
	for i := from; i < len(t); i++ {
		switch c := t[i]; {
		case c == '"' || c == '\'':
			i = endOfTOMLString(t, i) - 1
		case c == '[' || c == '{':
			depth++
		case depth == 0 && (c == ']' || c == '}' || c == ',' || c == '#' || c == '\n'):
			return end
		case c == ']' || c == '}':
			depth--
		case c == '#':
			for i+1 < len(t) && t[i+1] != '\n' {
				i++
			}
			continue
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			continue
		}
		end = i + 1
	}
	return min(end, len(t))
}

// endOfTOMLString returns the offset after the string that starts at i.
func endOfTOMLString(t []byte, i int) int {
	quote, n := t[i], 1
	if i+2 < len(t) && t[i+1] == quote && t[i+2] == quote {
		n = 3
	}
	for i += n; i < len(t); i++ {
		if t[i] == '\\' && quote == '"' {
			i++
			continue
		}
		run := 0
		for run < 5 && i+run < len(t) && t[i+run] == quote {
			run++
		}
		if n == 1 && run > 0 {
			return i + 1
		}
		if run >= 3 { // up to two quotes may precede the closing ones
			return i + run
		}
	}
	return len(t)
}

// Text returns the text of the file without a byte order mark.
func (s *Source) Text() []byte { return s.text }
