package document

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/template/parse"

	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"github.com/mcptrack/mcptrack/core/printable"
)

// UnknownFieldError reports that a template names a field that no record has. A field that a record may
// have, but does not, prints nothing.
type UnknownFieldError struct {
	Field string
	Known []string // fields that a record may have
}

func (e *UnknownFieldError) Error() string {
	return fmt.Sprintf("the output template names the field %q, which does not exist", printable.Line(e.Field, 100))
}

// knownFields returns the fields that the records of a document may have: those of its Go type or, for JSON,
// the optional ones and those that a record has. Nil means that they may have any.
func knownFields(v any, doc []byte, optional []string) []string {
	var items []map[string]json.RawMessage
	var one map[string]json.RawMessage
	if optional != nil && (json.Unmarshal(doc, &items) == nil || json.Unmarshal(doc, &one) == nil) {
		all := map[string]bool{}
		for _, name := range optional {
			all[name] = true
		}
		for _, item := range append(items, one) {
			for name := range item {
				all[name] = true
			}
		}
		return slices.Sorted(maps.Keys(all))
	}
	t := reflect.TypeOf(v)
	for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice) {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return nil
	}
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() && name != "-" && (name != "" || !f.Anonymous) {
			if name == "" {
				name = f.Name
			}
			names = append(names, name)
		}
	}
	return names
}

// checkFields returns an error if a template names a field of its record that is not known. It does not
// check the fields of other values.
func checkFields(t *template.Template, known []string) (err error) {
	if known == nil {
		return nil
	}
	check := func(path []string) {
		if err == nil && len(path) > 0 && !slices.Contains(known, path[0]) {
			err = &UnknownFieldError{path[0], known}
		}
	}
	var list func(n *parse.ListNode, record bool)
	var pipe func(n *parse.PipeNode, record bool)
	// In both, record says whether dot is the record.
	pipe = func(n *parse.PipeNode, record bool) {
		if n == nil {
			return
		}
		for _, cmd := range n.Cmds {
			for _, arg := range cmd.Args {
				switch arg := arg.(type) {
				case *parse.FieldNode:
					if record {
						check(arg.Ident)
					}
				case *parse.VariableNode:
					if arg.Ident[0] == "$" {
						check(arg.Ident[1:])
					}
				case *parse.PipeNode:
					pipe(arg, record)
				}
			}
		}
	}
	list = func(n *parse.ListNode, record bool) {
		if n == nil {
			return
		}
		branch := func(b *parse.BranchNode, inside bool) {
			pipe(b.Pipe, record)
			list(b.List, inside)
			list(b.ElseList, record)
		}
		for _, n := range n.Nodes {
			switch n := n.(type) {
			case *parse.ActionNode:
				pipe(n.Pipe, record)
			case *parse.TemplateNode:
				pipe(n.Pipe, record)
			case *parse.IfNode:
				branch(&n.BranchNode, record)
			case *parse.RangeNode:
				branch(&n.BranchNode, false)
			case *parse.WithNode:
				branch(&n.BranchNode, false)
			}
		}
	}
	list(t.Root, true)
	return err
}
