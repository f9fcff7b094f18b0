package tree

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Canonical returns a value as JSON with sorted keys and without white space. Values that JSON
// does not have, such as the infinities of YAML, become strings. Of a key that an object has
// twice, the first counts.
func Canonical(n *Node) json.RawMessage { return n.append(nil) }

func (n *Node) append(b []byte) []byte {
	switch n.Kind {
	case Null:
		return append(b, "null"...)
	case Object:
		members := n.Members
		first := n.Index()
		members = slices.DeleteFunc(slices.Clone(members), func(m *Member) bool { return first[m.Name] != m })
		slices.SortFunc(members, func(x, y *Member) int { return strings.Compare(x.Name, y.Name) })
		b = append(b, '{')
		for i, m := range members {
			if i > 0 {
				b = append(b, ',')
			}
			b = m.Value.append(append(appendString(b, m.Name), ':'))
		}
		return append(b, '}')
	case List:
		b = append(b, '[')
		for i, item := range n.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.append(b)
		}
		return append(b, ']')
	case Bool, Number:
		if json.Valid([]byte(n.Text)) {
			return append(b, n.Text...)
		}
	}
	return appendString(b, n.Text)
}

func appendString(b []byte, s string) []byte {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string is always encoded
	return append(b, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...)
}
