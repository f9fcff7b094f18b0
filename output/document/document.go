// Package document writes one document, or a stream of documents, in the format that --output
// names.
//
// All formats derive from the JSON form, so that keys are the same everywhere. Hidden
// characters are escaped.
//
// Library: go.yaml.in/yaml/v4 writes YAML (maintained by the YAML organization, Apache-2.0
// and MIT). It gets nodes built from the JSON form, because no YAML parser accepts every JSON
// document.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	"go.yaml.in/yaml/v4"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Format is a value of the --output flag.
type Format struct {
	Name     string             // one of [Formats], without "="
	Template *template.Template // nil unless Name is "template"
}

// Formats returns the values of --output for help and completion. A template follows
// "template=".
func Formats() []string { return []string{"table", "wide", "json", "yaml", "name", "template="} }

// Choices returns the values of --output as a phrase for a sentence.
func Choices() string {
	names := Formats()
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last] + "GO_TEMPLATE"
}

// ParseFormat parses a value of --output.
func ParseFormat(s string) (Format, error) {
	if text, ok := strings.CutPrefix(s, "template="); ok {
		t, err := parseTemplate(text)
		if err != nil {
			return Format{}, err
		}
		return Format{Name: "template", Template: t}, nil
	}
	if s == "template" || !slices.Contains(Formats(), s) {
		return Format{}, fmt.Errorf("unknown --output %q; choose %s", s, Choices())
	}
	return Format{Name: s}, nil
}

// Table reports whether the format is a table for people.
func (f Format) Table() bool { return f.Name == "table" || f.Name == "wide" }

// Wide reports whether the format is a table with all columns.
func (f Format) Wide() bool { return f.Name == "wide" }

// Write writes v as indented JSON, as YAML, or with a template, which runs once per item if v is
// an array. The caller writes the formats table, wide and name.
func Write(w io.Writer, f Format, v any) error {
	doc, err := printable.Marshal(v)
	if err != nil {
		return err
	}
	switch f.Name {
	case "yaml":
		return writeYAML(w, doc)
	case "template":
		return writeTemplate(w, f.Template, doc)
	default:
		var out bytes.Buffer
		if err := json.Indent(&out, doc, "", "  "); err != nil {
			return err
		}
		out.WriteByte('\n')
		_, err = w.Write(out.Bytes())
		return err
	}
}

// WriteEach writes v as one document of a stream. --- starts each YAML document; a newline ends
// each output of a template.
func WriteEach(w io.Writer, f Format, v any) error {
	if f.Name == "yaml" {
		if _, err := io.WriteString(w, "---\n"); err != nil {
			return err
		}
	}
	return Write(w, f, v)
}

func compact(v any) (string, error) {
	b, err := printable.Marshal(v)
	return string(b), err
}

// parseTemplate parses a user's template. The template has the function json, can compare
// numbers, and prints nothing for a missing key.
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

// place rewords an error of text/template so that it starts with the line in the user's
// template.
func place(err error) string {
	text := strings.NewReplacer(`executing "output" `, "", " in type interface {}", "").Replace(err.Error())
	if rest, ok := strings.CutPrefix(text, "template: output:"); ok {
		return "line " + rest
	}
	return strings.TrimPrefix(text, "template: ")
}

// printThrough pipes every printed value of a template through [printed], as html/template does
// with its escapers.
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

// printed returns what a template prints for a value: nothing for null or a missing key, and no
// exponent in numbers.
func printed(v any) any {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return v
}

// comparableNumbers converts each json.Number to an int or a float64, which templates can
// compare.
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

// writeTemplate runs the template for the document, or for each item of an array. A newline ends
// each run.
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

// writeYAML writes a JSON document as YAML and keeps the order of members.
func writeYAML(w io.Writer, doc []byte) error {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	n, err := yamlNode(dec)
	if err != nil {
		return err
	}
	out, err := yaml.Dump(n, yaml.WithIndent(2), yaml.WithCompactSeqIndent(), yaml.WithLineWidth(-1))
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	// yamlString puts the characters that Lines escapes in double quotes, where YAML has the same
	// escapes.
	_, err = io.WriteString(w, printable.Lines(string(out)))
	return err
}

// yamlNode reads one JSON value.
func yamlNode(dec *json.Decoder) (*yaml.Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if v == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for dec.More() {
			if n.Kind == yaml.MappingNode {
				name, err := dec.Token()
				if err != nil {
					return nil, err
				}
				n.Content = append(n.Content, yamlString(name.(string)))
			}
			value, err := yamlNode(dec)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, value)
		}
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle // [] or {}
		}
		_, err := dec.Token() // the end
		return n, err
	case string:
		return yamlString(v), nil
	case json.Number:
		n := &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}
		if _, err := v.Int64(); err != nil {
			n.Tag = "!!float"
		} else {
			n.Tag = "!!int"
		}
		return n, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}, nil
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	}
}

// yamlString returns the node of a string. A string with hidden characters gets double quotes,
// the only style with escapes.
func yamlString(s string) *yaml.Node {
	n := &yaml.Node{}
	_ = n.Encode(s) // quotes what older readers would not take for a string; never fails
	if printable.Lines(s) != s {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
