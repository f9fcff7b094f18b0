package config

import (
	"fmt"
	"slices"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// An entry is the object of one server while it is read.
type entry struct {
	*reader
	object  *tree.Node
	path    pointer
	label   string                  // the server's name in messages: Server "docs"
	members map[string]*tree.Member // without those whose value is null or ""

	server  *Server  // the server being read; nil for an object that is not a server
	missing *clauses // of the server or webhook being read; nil for others
}

func (r *reader) entry(object *tree.Node, path pointer, label string) *entry {
	e := &entry{reader: r, object: object, path: path, label: label, members: object.Index()}
	for name, m := range e.members {
		if m.Value.Kind == tree.Null || m.Value.Kind == tree.String && m.Value.Text == "" && name != "id" {
			delete(e.members, name)
		}
	}
	return e
}

// A field is one key of an entry with its value.
type field struct {
	name  string // as spelled in the file
	key   int    // offset of the key in the source
	value *tree.Node
	path  pointer
}

func (e *entry) field(name string) (field, bool) {
	m := e.members[name]
	if m == nil {
		return field{}, false
	}
	return field{name: name, key: m.Offset, value: m.Value, path: e.path.key(name)}, true
}

// find returns the field of a key under any of its spellings. Two spellings with
// different values are an error.
func (e *entry) find(names ...string) (found field, ok bool) {
	for _, name := range names {
		f, has := e.field(name)
		if !has {
			continue
		}
		if !ok {
			found, ok = f, true
			continue
		}
		if f.value.Kind == found.value.Kind && f.value.Text == found.value.Text {
			continue
		}
		later := f
		if found.key > f.key {
			later = found
		}
		e.errorAt(later.key, later.path, CodeConflict,
			fmt.Sprintf("%s has both %q and %q with different values", e.label, found.name, f.name), "they mean the same; keep one")
	}
	return found, ok
}

// present returns the field of a key whose value is neither an empty list nor an empty object.
func (e *entry) present(name string) (field, bool) {
	f, ok := e.field(name)
	if !ok || f.value.Kind == tree.Object && len(f.value.Members) == 0 || f.value.Kind == tree.List && len(f.value.Items) == 0 {
		return field{}, false
	}
	return f, true
}

// invalid reports a value of the wrong type.
func (e *entry) invalid(f field, expected, hint string) {
	e.errorAt(f.value.Offset, f.path, CodeType, fmt.Sprintf("%s has invalid %q; expected %s", e.label, f.name, expected), hint)
}

// clauses say what a server or webhook needs and this machine lacks: its Missing.
type clauses []string

const maxClauses = 10

// add adds a clause that is not there yet, unless there are too many.
func (c *clauses) add(clause string) {
	if len(*c) < maxClauses && !slices.Contains(*c, clause) {
		*c = append(*c, clause)
	}
}

// lacks reports that the server or webhook needs something that this machine lacks. It is a
// warning, because the others of the file can be used; for a disabled server nothing is reported.
func (e *entry) lacks(v *tree.Node, path pointer, code Code, clause, hint string) {
	message := e.label + ": " + clause
	switch {
	case e.missing == nil:
		e.errorAt(v.Offset, path, code, message, hint)
	case e.server == nil || e.server.Enabled:
		e.warnAt(v.Offset, path, code, message, hint)
		e.missing.add(clause)
	}
}

// invalidValue reports a string whose value is not acceptable. If a reference contributed to
// the value, the problem counts as missing on this machine, not as an error of the file.
func (e *entry) invalidValue(v *tree.Node, path pointer, code Code, clause, hint string) {
	if e.expander.refers(v.Text) {
		e.lacks(v, path, code, clause, hint)
		return
	}
	e.errorAt(v.Offset, path, code, e.label+" has "+clause, hint)
}

// expand returns the value of a string with its references replaced. It reports references that
// cannot be replaced, as problems of the key name.
func (e *entry) expand(v *tree.Node, path pointer, name string) (string, bool) {
	value, errs := e.expander.expand(v.Text)
	for _, err := range errs {
		clause := quote(name) + " " + err.message
		switch err.code {
		case CodeTooLarge:
			e.errorAt(v.Offset, path, err.code, e.label+": "+clause, err.hint)
		case CodeSecret:
			e.warnAt(v.Offset, path, err.code, e.label+": "+clause, err.hint)
			fallthrough
		default:
			e.lacks(v, path, err.code, clause, err.hint)
		}
	}
	return value, len(errs) == 0
}
