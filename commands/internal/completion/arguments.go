package completion

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// argumentsOf returns completions for the arguments of prompts and tools, by name; nil
// for other kinds.
func argumentsOf(kind catalog.Kind, list catalog.List) map[string][]string {
	if kind != catalog.Prompts && kind != catalog.Tools {
		return nil
	}
	out := map[string][]string{}
	for _, it := range list {
		var begins []string
		if kind == catalog.Prompts {
			begins = promptArguments(it)
		} else {
			begins = toolArguments(it)
		}
		if len(begins) > 0 {
			out[it.Key] = begins[:min(len(begins), maxArguments)]
		}
	}
	return out
}

func promptArguments(it catalog.Item) []string {
	var p struct {
		Arguments []struct {
			Name string `json:"name"`
		} `json:"arguments"`
	}
	if json.Unmarshal(it.Raw, &p) != nil {
		return nil
	}
	var begins []string
	for _, a := range p.Arguments {
		begins = append(begins, a.Name+"=")
	}
	return begins
}

// toolArguments also returns the values of enumerations and booleans.
func toolArguments(it catalog.Item) []string {
	var t struct {
		InputSchema struct {
			Properties map[string]struct {
				Type any   `json:"type"`
				Enum []any `json:"enum"`
			} `json:"properties"`
		} `json:"inputSchema"`
	}
	if json.Unmarshal(it.Raw, &t) != nil {
		return nil
	}
	properties := t.InputSchema.Properties
	var begins []string
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		values := properties[name].Enum
		if len(values) == 0 && properties[name].Type == "boolean" {
			values = []any{true, false}
		}
		begins = append(begins, name+"=")
		for _, v := range values {
			begins = append(begins, fmt.Sprintf("%s=%v", name, v))
		}
	}
	return begins
}
