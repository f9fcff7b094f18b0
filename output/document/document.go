// Package document writes a single document, or a stream of documents, in the format selected with
// --output.
//
// All formats derive from the JSON form, so that keys are the same everywhere. Hidden characters
// are escaped.
//
// Libraries: pkg/template of DataDog's agent is text/template without methods of values, which would
// keep every exported method in the program (maintained with Go's releases, Apache-2.0).
// go.yaml.in/yaml/v4 writes YAML (maintained by the YAML organization, Apache-2.0 and MIT). It receives
// nodes built from the JSON form, because no YAML parser accepts every JSON document.
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
	"text/template/parse"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"go.yaml.in/yaml/v4"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Format is a parsed value of the --output flag.
type Format struct {
	Name     string             // one of [Formats], without "=", or one of the caller's own
	Template *template.Template // the parsed template; nil unless Name is "template"
}

// Formats returns the values of --output for help and completion. more are those that only one command
// has. The text of a template follows "template=".
func Formats(more ...string) []string {
	return append([]string{"table", "wide", "json", "yaml", "name"}, append(more, "template=")...)
}

// Choices returns the values of --output as a phrase for use in a sentence.
func Choices(more ...string) string {
	names := Formats(more...)
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last] + "GO_TEMPLATE"
}

// ParseFormat parses a value of --output. The caller handles the formats in more.
func ParseFormat(s string, more ...string) (Format, error) {
	if text, ok := strings.CutPrefix(s, "template="); ok {
		t, err := parseTemplate(text)
		if err != nil {
			return Format{}, err
		}
		return Format{Name: "template", Template: t}, nil
	}
	if s == "template" || !slices.Contains(Formats(more...), s) {
		return Format{}, fmt.Errorf("unknown --output %q; choose %s", s, Choices(more...))
	}
	return Format{Name: s}, nil
}

// Table reports whether the format is a human-readable table.
func (f Format) Table() bool { return f.Name == "table" || f.Name == "wide" }

// Wide reports whether the format is a table with all columns.
func (f Format) Wide() bool { return f.Name == "wide" }

// Write writes v as indented JSON, as YAML, or through a template, which is executed once per item
// if v is an array. The caller handles the formats table, wide and name. optional are the fields that
// the items may have besides those that they have, if v is JSON; see [UnknownFieldError].
func Write(w io.Writer, f Format, v any, optional ...string) error {
	doc, err := printable.Marshal(v)
	if err != nil {
		return err
	}
	switch f.Name {
	case "yaml":
		return writeYAML(w, doc)
	case "template":
		if err := checkFields(f.Template, knownFields(v, doc, optional)); err != nil {
			return err
		}
		return writeTemplate(w, f.Template, doc)
	default:
		if doc, err = Indent(doc); err != nil {
			return err
		}
		_, err = w.Write(append(doc, '\n'))
		return err
	}
}

// maxIndent is the depth from which Indent indents no further: the depth of a document from others is not limited.
const maxIndent = 64

// Indent returns JSON with a line for each member and element. It fails for other text.
func Indent(doc []byte) ([]byte, error) {
	var lines, out bytes.Buffer
	if err := json.Indent(&lines, doc, "", ""); err != nil {
		return nil, err
	}
	depth := 0
	for line := range bytes.Lines(lines.Bytes()) {
		if line[0] == '}' || line[0] == ']' {
			depth--
		}
		out.WriteString(strings.Repeat("  ", min(depth, maxIndent)))
		out.Write(line)
		if bytes.HasSuffix(line, []byte("{\n")) || bytes.HasSuffix(line, []byte("[\n")) {
			depth++
		}
	}
	return out.Bytes(), nil
}

// WriteEach writes v as Write does, as one document of a stream. "---" precedes each YAML document; a newline
// follows the output of each template execution.
func WriteEach(w io.Writer, f Format, v any, optional ...string) error {
	if f.Name == "yaml" {
		if _, err := io.WriteString(w, "---\n"); err != nil {
			return err
		}
	}
	return Write(w, f, v, optional...)
}

func compact(v any) (string, error) {
	b, err := printable.Marshal(v)
	return string(b), err
}

// parseTemplate parses a user's template. Templates can call json, compare numbers, and print
// nothing for a missing key.
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

// place rewords an error from text/template so that it starts with the line in the user's template.
func place(err error) string {
	text := strings.NewReplacer(`executing "output" `, "", " in type interface {}", "").Replace(err.Error())
	if rest, ok := strings.CutPrefix(text, "template: output:"); ok {
		return "line " + rest
	}
	return strings.TrimPrefix(text, "template: ")
}

// printThrough pipes every value that a template prints through [printed], as html/template does
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

// printed returns what a template prints for a value: nothing for null or a missing key, and
// numbers without exponents.
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

// writeTemplate executes the template for the document, or for each item of an array. A newline
// follows each execution.
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

// writeYAML writes a JSON document as YAML and preserves the order of object members.
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
	// Lines escapes only characters in strings that yamlString has double-quoted, where YAML has the
	// same escapes.
	_, err = io.WriteString(w, printable.Lines(string(out)))
	return err
}

// yamlNode reads one JSON value from dec and returns it as a YAML node.
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
			n.Style = yaml.FlowStyle // an empty collection is written as [] or {}
		}
		_, err := dec.Token() // the closing bracket or brace
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

// yamlString returns a YAML node for a string. A string with hidden characters is double-quoted,
// the only style that supports escapes.
func yamlString(s string) *yaml.Node {
	n := &yaml.Node{}
	_ = n.Encode(s) // quotes strings that older YAML readers would parse as another type; never fails
	if printable.Lines(s) != s {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
