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

// input describes the arguments of a tool or a prompt one by one. Its JSON is that of a tool's input
// schema.
type input struct {
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required"`
	Additional json.RawMessage     `json:"additionalProperties"`
}

type property struct {
	Type any `json:"type"`
}

// promptInput returns the input of a prompt, which takes only the arguments that it lists.
func promptInput(prompt json.RawMessage) input {
	var described struct {
		Arguments []struct {
			Name     string `json:"name"`
			Required bool   `json:"required"`
		} `json:"arguments"`
	}
	if json.Unmarshal(prompt, &described) != nil {
		return input{}
	}
	in := input{Properties: map[string]property{}, Additional: json.RawMessage("false")}
	for _, a := range described.Arguments {
		in.Properties[a.Name] = property{}
		if a.Required {
			in.Required = append(in.Required, a.Name)
		}
	}
	return in
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

// check returns a usage failure if a required argument is missing, or one is given that the schema
// forbids.
func (in input) check(of target, given []string) error {
	missing := slices.ContainsFunc(in.Required, func(name string) bool { return !slices.Contains(given, name) })
	if problem := in.problem(given); problem != "" && (missing || in.strict()) {
		return cli.Usage("%s: %s %s", printable.Line(of.server, 128), printable.Line(of.name, 100), problem)
	}
	return nil
}

// problem returns what is wrong with the names of the given arguments, and what is taken, or "" if they
// match the schema.
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
