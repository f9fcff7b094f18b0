package tree

import (
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// A tomlReader builds the tree of one TOML document. It records how each table was defined, because
// the parts of a table may appear in any order.
type tomlReader struct {
	*Source
	parser unstable.Parser
	root   *Node
	origin map[*Node]tableOrigin
	index  map[*Node]map[string]*Member // the first member with each name
}

// A tableOrigin describes how a table was defined, which determines what may be added to it.
type tableOrigin int

const (
	implied tableOrigin = iota // implied by a longer header or key
	header                     // defined by [name] or as an element of [[name]]
	inline                     // defined as {…}, which cannot be extended
)

// parseTOML parses TOML. As with JSON, duplicate keys are kept in the tree.
func (s *Source) parseTOML() (*Node, *Error) {
	r := &tomlReader{Source: s, root: &Node{Kind: Object}, origin: map[*Node]tableOrigin{}, index: map[*Node]map[string]*Member{}}
	r.parser.Reset(s.text)
	table := r.root
	for r.parser.NextExpression() {
		e := r.parser.Expression()
		var err *Error
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table, err = r.table(e.Key(), e.Kind == unstable.ArrayTable)
		case unstable.KeyValue:
			err = r.keyValue(table, e, 0)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := r.parser.Error(); err != nil {
		return nil, r.explainTOML(err)
	}
	return r.root, nil
}

// explainTOML converts the parser's error to an Error. It discards the error text, which may quote
// the file.
func (r *tomlReader) explainTOML(err error) *Error {
	bad, ok := errors.AsType[*unstable.ParserError](err)
	if !ok {
		return syntax(0, "invalid TOML", "")
	}
	offset := len(r.text)
	if len(bad.Highlight) > 0 {
		offset = int(r.parser.Range(bad.Highlight).Offset)
	}
	if strings.Contains(bad.Message, "nest") {
		return tooDeep(offset)
	}
	return syntax(offset, "invalid TOML here", `write keys as NAME = VALUE, tables as [NAME], and strings in quotes`)
}

// key returns the parts of a dotted key.
func (r *tomlReader) key(it unstable.Iterator) (parts []*Member, err *Error) {
	for it.Next() {
		n := it.Node()
		parts = append(parts, &Member{Name: string(n.Data), Offset: int(n.Raw.Offset)})
		if len(parts) > MaxDepth {
			return nil, tooDeep(int(n.Raw.Offset))
		}
	}
	return parts, nil
}

// add adds a member to a table.
func (r *tomlReader) add(n *Node, m *Member) {
	n.Members = append(n.Members, m)
	if r.index[n] == nil {
		r.index[n] = map[string]*Member{}
	}
	if r.index[n][m.Name] == nil {
		r.index[n][m.Name] = m
	}
}

// descend returns the table at the given path relative to n, creating missing tables.
func (r *tomlReader) descend(n *Node, parts []*Member) (*Node, *Error) {
	for _, part := range parts {
		m := r.index[n][part.Name]
		switch {
		case m == nil:
			next := &Node{Kind: Object, Offset: part.Offset}
			part.Value = next
			r.add(n, part)
			n = next
			continue
		case m.Value.Kind == List && len(m.Value.Items) > 0: // use the last element of [[name]]
			n = m.Value.Items[len(m.Value.Items)-1]
		default:
			n = m.Value
		}
		if n.Kind != Object || r.origin[n] == inline {
			return nil, syntax(part.Offset, "this key already has a value, so it cannot be a table", "")
		}
	}
	return n, nil
}

// table opens the table defined by a [header], or a new element of an [[array]].
func (r *tomlReader) table(it unstable.Iterator, array bool) (*Node, *Error) {
	parts, err := r.key(it)
	if err != nil {
		return nil, err
	}
	last := parts[len(parts)-1]
	n, err := r.descend(r.root, parts[:len(parts)-1])
	if err != nil {
		return nil, err
	}
	m := r.index[n][last.Name]
	next := &Node{Kind: Object, Offset: last.Offset}
	r.origin[next] = header
	switch {
	case array && m != nil && m.Value.Kind == List && r.origin[m.Value] == header:
		m.Value.Items = append(m.Value.Items, next)
		return next, nil
	case array:
		last.Value = &Node{Kind: List, Offset: last.Offset, Items: []*Node{next}}
		r.origin[last.Value] = header
	case m != nil && m.Value.Kind == Object && r.origin[m.Value] == implied:
		r.origin[m.Value] = header
		return m.Value, nil
	default:
		last.Value = next
	}
	r.add(n, last)
	return next, nil
}

// keyValue adds NAME = VALUE to a table.
func (r *tomlReader) keyValue(table *Node, e *unstable.Node, depth int) *Error {
	parts, err := r.key(e.Key())
	if err != nil {
		return err
	}
	if table, err = r.descend(table, parts[:len(parts)-1]); err != nil {
		return err
	}
	last := parts[len(parts)-1]
	if last.Value, err = r.value(e.Value(), last.Offset, depth+len(parts)); err != nil {
		return err
	}
	r.add(table, last)
	return nil
}

// value converts a value. The parser does not report an offset for lists, so the offset of a list
// is set to at.
func (r *tomlReader) value(v *unstable.Node, at, depth int) (*Node, *Error) {
	if v.Raw.Length > 0 {
		at = int(v.Raw.Offset)
	}
	if depth > MaxDepth {
		return nil, tooDeep(at)
	}
	n := &Node{Offset: at, Text: string(v.Data)}
	switch v.Kind {
	case unstable.Array:
		n.Kind, n.Text = List, ""
		for it := v.Children(); it.Next(); {
			if it.Node().Kind == unstable.Comment {
				continue
			}
			item, err := r.value(it.Node(), at, depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, item)
		}
	case unstable.InlineTable:
		n.Kind, n.Text = Object, ""
		for it := v.Children(); it.Next(); {
			if it.Node().Kind != unstable.KeyValue {
				continue
			}
			if err := r.keyValue(n, it.Node(), depth); err != nil {
				return nil, err
			}
		}
		r.origin[n] = inline
	case unstable.Bool:
		n.Kind = Bool
	case unstable.Integer, unstable.Float:
		n.Kind = Number
	default: // strings and dates, which become strings
		n.Kind = String
	}
	return n, nil
}
