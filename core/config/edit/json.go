package edit

import (
	"bytes"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// json returns the change for an object in JSON. The new object has one member per line if the old
// one has.
func (d *doc) json(value *tree.Node, set []Member, keep func(string) bool) change {
	var members []string
	for _, m := range set {
		members = append(members, quoted(m.Name)+": "+inline(m.Value, ": ", quoted, ""))
	}
	for _, m := range value.Members {
		if keep(m.Name) {
			members = append(members, quoted(m.Name)+": "+string(d.Text()[m.Value.Offset:m.Value.End]))
		}
	}
	now := "{" + strings.Join(members, ", ") + "}"
	if bytes.IndexByte(d.Text()[value.Offset:value.End], '\n') >= 0 {
		outer, _ := d.indentation(value.Offset)
		inner := outer + "  "
		if len(value.Members) > 0 {
			if space, alone := d.indentation(value.Members[0].Offset); alone {
				inner = space
			}
		}
		now = "{" + d.eol + inner + strings.Join(members, ","+d.eol+inner) + d.eol + outer + "}"
	}
	return change{value.Offset, value.End, []byte(now)}
}

// editedJSON is edited for JSON. It parses the new value, and moves the rest of the tree.
func (d *doc) editedJSON(after []byte, c change, value, want *tree.Node) (*doc, error) {
	now, failure := tree.NewSource(c.now).Parse(tree.JSON)
	if failure != nil || now.Offset != 0 || now.End != len(c.now) || !isWanted(now, want) {
		return nil, errForm
	}
	move(now, 0, c.from)
	move(d.root, c.to, len(c.now)-(c.to-c.from))
	*value = *now
	d.Source = tree.NewSource(after)
	return d, nil
}

// move adds to all offsets below n that are not less than from.
func move(n *tree.Node, from, add int) {
	if n.End < from {
		return
	}
	n.End += add
	if n.Offset >= from {
		n.Offset += add
	}
	for _, m := range n.Members {
		if m.Offset >= from {
			m.Offset += add
		}
		move(m.Value, from, add)
	}
	for _, item := range n.Items {
		move(item, from, add)
	}
}

// Add adds a value, written as JSON with an indentation of two spaces, to the end of the list or
// object at a path in JSON. name is the key in an object.
func Add(text []byte, path []string, name string, value []byte) ([]byte, error) {
	d, err := parse(text, tree.JSON)
	if err != nil {
		return nil, err
	}
	c := d.at(path)
	if c == nil || c.Kind != tree.Object && c.Kind != tree.List {
		return nil, ErrMissing
	}
	outer, _ := d.indentation(c.Offset)
	inner, at, end := outer+"  ", c.Offset+1, c.End-1
	starts, ends := elements(c)
	before, after := "", d.eol+outer
	if n := len(starts); n > 0 {
		if space, alone := d.indentation(starts[n-1]); alone {
			inner = space
		}
		at, end, before, after = ends[n-1], ends[n-1], ",", ""
	} else if len(bytes.TrimSpace(d.Text()[at:end])) > 0 { // a comment
		end = at
	}
	item := strings.ReplaceAll(string(value), "\n", d.eol+inner)
	if c.Kind == tree.Object {
		item = quoted(name) + ": " + item
	}
	return d.apply(change{at, end, []byte(before + d.eol + inner + item + after)}), nil
}

// Remove removes the element at a path from its list or object in JSON, together with its comma.
func Remove(text []byte, path []string) ([]byte, error) {
	d, err := parse(text, tree.JSON)
	if err != nil {
		return nil, err
	}
	parent, value := d.at(path[:len(path)-1]), d.at(path)
	if value == nil {
		return nil, ErrMissing
	}
	starts, ends := elements(parent)
	i := slices.Index(ends, value.End)
	blank := func(from, to int) bool { return len(bytes.TrimSpace(d.Text()[from:to])) == 0 }
	var changes []change
	switch last := len(ends) - 1; {
	case i > 0:
		comma := d.comma(ends[i-1], starts[i])
		if blank(ends[i-1], comma) && blank(comma+1, starts[i]) {
			changes = []change{{ends[i-1], ends[i], nil}}
		} else {
			changes = []change{{comma, comma + 1, nil}, {starts[i], ends[i], nil}}
		}
	case i < last:
		if end := d.comma(ends[i], starts[i+1]) + 1; blank(end, starts[i+1]) {
			changes = []change{{starts[i], starts[i+1], nil}}
		} else {
			changes = []change{{starts[i], end, nil}}
		}
	default:
		changes = []change{{parent.Offset + 1, parent.End - 1, nil}}
	}
	return d.apply(changes...), nil
}

// comma returns the offset of the comma between two elements, which comments may surround.
func (d *doc) comma(from, to int) int {
	for i := from; i < to; i++ {
		switch rest := d.Text()[i:to]; {
		case rest[0] == ',':
			return i
		case bytes.HasPrefix(rest, []byte("//")):
			i += bytes.IndexByte(rest, '\n')
		case bytes.HasPrefix(rest, []byte("/*")):
			i += bytes.Index(rest, []byte("*/")) + 1
		}
	}
	return to // cannot happen: there is a comma between any two elements
}

// elements returns the offsets of the elements of a list or object, from the key to the end.
func elements(c *tree.Node) (starts, ends []int) {
	for _, m := range c.Members {
		starts, ends = append(starts, m.Offset), append(ends, m.Value.End)
	}
	for _, item := range c.Items {
		starts, ends = append(starts, item.Offset), append(ends, item.End)
	}
	return starts, ends
}
