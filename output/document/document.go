// Package document writes the document of a one-shot command in the requested format,
// and streams of documents for streaming commands.
//
// All other formats are derived from the JSON form, so that keys are the same
// everywhere. Hidden characters are escaped in all of them.
//
// Library: go.yaml.in/yaml/v4 writes YAML (maintained by the YAML organization, Apache-2.0
// and MIT). It is given nodes that are made from the JSON form: a YAML parser would not accept
// every JSON document.
package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Format is a value of the --output flag.
type Format struct {
	Name     string             // one of [Formats], without "="
	Template *template.Template // nil unless Name is "template"
}

// Formats returns the values of --output, for help and completion; a template follows
// "template=".
func Formats() []string { return []string{"table", "wide", "json", "yaml", "name", "template="} }

// Choices lists the values of --output as part of a sentence.
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

// Write writes v, whose JSON form is one document, as json (indented), yaml, or with a
// template (once per item if v is an array). The formats table, wide and name are up to the
// caller.
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

// WriteEach writes v as one document of a stream: YAML documents are separated
// by ---, and a template's output ends in a newline.
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
