package commands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/printable"
)

// input is the part of a tool's input schema that describes its arguments one by one.
type input struct {
	Properties map[string]struct {
		Type any `json:"type"`
	} `json:"properties"`
	Required   []string        `json:"required"`
	Additional json.RawMessage `json:"additionalProperties"`
}

// newInput returns the input of a tool; it is empty if the schema is unreadable.
func newInput(tool json.RawMessage) input {
	var described struct {
		InputSchema input `json:"inputSchema"`
	}
	if json.Unmarshal(tool, &described) != nil {
		return input{}
	}
	return described.InputSchema
}

// strict reports whether the schema forbids arguments that it does not list.
func (in input) strict() bool { return string(bytes.TrimSpace(in.Additional)) == "false" }

// problem returns what is wrong with the names of the given arguments, and what the tool takes, or
// "" if they match the schema.
func (in input) problem(given []string) string {
	slices.Sort(given)
	for _, name := range given {
		if _, known := in.Properties[name]; !known && (len(in.Properties) > 0 || in.strict()) {
			return fmt.Sprintf("has no argument %q; it takes %s", printable.Line(name, 60), in)
		}
	}
	for _, name := range in.Required {
		if !slices.Contains(given, name) {
			return fmt.Sprintf("needs the argument %q; it takes %s", printable.Line(name, 60), in)
		}
	}
	return ""
}

// String lists the arguments with their types, the required ones first.
func (in input) String() string {
	var required, optional []string
	for _, name := range slices.Sorted(maps.Keys(in.Properties)) {
		text := printable.Line(name, 60)
		var notes []string
		if kind := in.Properties[name].Type; kind != nil {
			notes = append(notes, strings.Trim(printable.Line(fmt.Sprint(kind), 60), "[]"))
		}
		if slices.Contains(in.Required, name) {
			required = append(required, fmt.Sprintf("%s (%s)", text, strings.Join(append(notes, "required"), ", ")))
			continue
		}
		if len(notes) > 0 {
			text += " (" + notes[0] + ")"
		}
		optional = append(optional, text)
	}
	if len(required)+len(optional) == 0 {
		return "no arguments"
	}
	return cli.Join(append(required, optional...), 20)
}
