package lock

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// A node is one JSON value. Nodes of one [nodes] are equal if and only if their pointers are:
// members in another order and numbers in another spelling do not count, as in RFC 8785.
type node struct {
	kind    jsontext.Kind // of the value's first token: one of n t f " 0 { [
	id      int           // its number among the nodes
	text    string        // of a string
	number  float64
	names   []string // of an object, sorted
	members map[string]*node
	items   []*node // of an array
}

// nodes reads JSON values so that equal ones become the same node. Time and memory are proportional
// to the size of what it reads.
type nodes map[string]*node

var errDepth = errors.New("nested too deeply")

// read returns the node of a JSON value. It fails for what a lock refuses: duplicate members,
// invalid UTF-8, unpaired surrogates, numbers out of the range of float64, and more than
// [catalog.MaxDepth] levels.
func (all nodes) read(raw []byte) (*node, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	n, err := all.value(dec)
	if err != nil {
		return nil, err
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return nil, errors.New("more than one JSON value")
	}
	return n, nil
}

func (all nodes) value(dec *jsontext.Decoder) (*node, error) {
	token, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	if dec.StackDepth() > catalog.MaxDepth {
		return nil, errDepth
	}
	n := node{kind: token.Kind()}
	key := []byte{byte(n.kind)}
	switch n.kind {
	case jsontext.KindString:
		n.text = token.String()
		key = append(key, n.text...)
	case jsontext.KindNumber:
		if n.number, err = token.Float(); err != nil {
			return nil, err
		}
		n.number += 0 // makes zero of minus zero
		key = strconv.AppendFloat(key, n.number, 'g', -1, 64)
	case jsontext.KindBeginArray:
		for dec.PeekKind() != jsontext.KindEndArray {
			item, err := all.value(dec)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
			key = strconv.AppendInt(append(key, ' '), int64(item.id), 10)
		}
	case jsontext.KindBeginObject:
		n.members = map[string]*node{}
		for dec.PeekKind() != jsontext.KindEndObject {
			name, err := dec.ReadToken()
			if err != nil {
				return nil, err
			}
			member := name.String()
			if n.members[member], err = all.value(dec); err != nil {
				return nil, err
			}
		}
		n.names = slices.Sorted(maps.Keys(n.members))
		for _, name := range n.names {
			key = strconv.AppendInt(strconv.AppendQuote(key, name), int64(n.members[name].id), 10)
		}
	}
	if n.items != nil || n.members != nil || n.kind == jsontext.KindBeginArray {
		if _, err := dec.ReadToken(); err != nil { // the closing bracket
			return nil, err
		}
	}
	return all.unique(n, key), nil
}

func (all nodes) unique(n node, key []byte) *node {
	if known := all[string(key)]; known != nil {
		return known
	}
	n.id = len(all)
	all[string(key)] = &n
	return &n
}

// member returns a member of an object, or nil.
func (n *node) member(name string) *node {
	if n == nil {
		return nil
	}
	return n.members[name]
}

// is reports whether a node exists and has this kind.
func (n *node) is(kind jsontext.Kind) bool { return n != nil && n.kind == kind }

// union returns the names of the members of two objects, sorted. Either may be nil.
func union(a, b *node) []string {
	var names []string
	if a != nil {
		names = append(names, a.names...)
	}
	if b != nil {
		names = append(names, b.names...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
