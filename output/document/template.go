package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/mcptrack/mcptrack/core/printable"
)

// parseTemplate parses a template that a user wrote. The template has the function json, can
// compare numbers, and prints nothing for a key that an item does not have.
func parseTemplate(text string) (*template.Template, error) {
	t, err := template.New("output").Funcs(template.FuncMap{"json": compact, "mcptrack_text": printed}).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("invalid output template, %s", place(err))
	}
	for _, defined := range t.Templates() {
		if defined.Tree != nil {
			printThrough(defined.Root)
		}
	}
	return t, nil
}

// place rewords an error of text/template to begin with the line in the user's text.
func place(err error) string {
	text := strings.NewReplacer(`executing "output" `, "", " in type interface {}", "").Replace(err.Error())
	if rest, ok := strings.CutPrefix(text, "template: output:"); ok {
		return "line " + rest
	}
	return strings.TrimPrefix(text, "template: ")
}

// printThrough makes every action of a template that prints a value pass it through [printed],
// as html/template inserts its escapers.
func printThrough(list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			if len(n.Pipe.Decl) == 0 {
				call := &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{parse.NewIdentifier("mcptrack_text").SetPos(n.Pos)}}
				n.Pipe.Cmds = append(n.Pipe.Cmds, call)
			}
		case *parse.IfNode:
			printThrough(n.List)
			printThrough(n.ElseList)
		case *parse.RangeNode:
			printThrough(n.List)
			printThrough(n.ElseList)
		case *parse.WithNode:
			printThrough(n.List)
			printThrough(n.ElseList)
		}
	}
}

// printed returns what a template prints for a value: nothing for null or a missing key, and
// numbers without an exponent.
func printed(v any) any {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return v
}

// comparableNumbers converts the numbers in a document, which are json.Number, to int or
// float64, which templates can compare.
func comparableNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = comparableNumbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = comparableNumbers(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
	}
	return v
}

// writeTemplate runs the template for the document, or once for each item of an
// array. Each run ends in a newline.
func writeTemplate(w io.Writer, t *template.Template, doc []byte) error {
	var v any
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return err
	}
	v = comparableNumbers(v)
	items, ok := v.([]any)
	if !ok {
		items = []any{v}
	}
	for _, item := range items {
		var out strings.Builder
		if err := t.Execute(&out, item); err != nil {
			return errors.New("output template, " + place(err))
		}
		if _, err := io.WriteString(w, printable.Lines(out.String())+"\n"); err != nil {
			return err
		}
	}
	return nil
}
