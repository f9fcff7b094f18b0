package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/mcptrack/mcptrack/core/printable"
)

// schemaURL is the address under which a schema is compiled. Nothing is loaded from it.
const schemaURL = "schema:///"

// maxSchemaValues limits the values in a schema that is compiled, because the library takes quadratic
// time. Larger schemas are only checked for their type; they are large items anyway.
const maxSchemaValues = 5_000

// checkSchema returns why a schema is not a valid JSON Schema of an object, or "" if it is. The dialect
// is the one that the schema names, or 2020-12. The schema must not be nested too deeply.
func checkSchema(raw json.RawMessage) (problem string) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return "is not JSON"
	}
	root, ok := doc.(map[string]any)
	switch {
	case !ok:
		return "is not an object"
	case root["type"] != "object":
		return `does not have "type": "object"`
	case bytes.Count(raw, []byte{','}) > maxSchemaValues:
		return ""
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(offline{})
	c.UseRegexpEngine(anyPattern)
	if err := c.AddResource(schemaURL, doc); err != nil {
		return "is not valid: " + schemaError(err)
	}
	if _, err := c.Compile(schemaURL); err != nil {
		return "is not valid: " + schemaError(err)
	}
	return ""
}

// schemaError returns the innermost reason for an error of the library.
func schemaError(err error) string {
	var at []string
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		cause, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err)
		for ok && len(cause.Causes) > 0 {
			cause = cause.Causes[0]
		}
		if ok {
			at = cause.InstanceLocation
			err = errors.New(cause.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
		}
	}
	text := strings.ReplaceAll(err.Error(), schemaURL, "")
	if len(at) > 0 {
		text = strings.Join(at, "/") + ": " + text
	}
	return printable.Line(text, 200)
}

// offline is a loader that loads nothing: clients do not fetch schemas, and an audit makes no requests
// on behalf of a server.
type offline struct{}

func (offline) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %s, which clients do not load", printable.Line(strings.TrimPrefix(url, schemaURL), 100))
}

// anyPattern accepts every regular expression: JSON Schema uses the syntax of ECMA-262, which Go does not support.
func anyPattern(pattern string) (jsonschema.Regexp, error) { return anything(pattern), nil }

type anything string

func (anything) MatchString(string) bool { return true }
func (a anything) String() string        { return string(a) }

// undescribed returns the parameters of an input schema that have no description, sorted.
func undescribed(schema json.RawMessage) []string {
	var s struct {
		Properties map[string]map[string]any `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil // a property may be true or false
	}
	maps.DeleteFunc(s.Properties, func(_ string, p map[string]any) bool {
		text, _ := p["description"].(string)
		return text != "" || p["$ref"] != nil
	})
	return slices.Sorted(maps.Keys(s.Properties))
}
