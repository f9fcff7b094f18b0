package gateway

import (
	"encoding/json"
	"slices"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/uritemplate"
)

// withoutDenied removes the contents of resources that the filter does not admit from the
// result of a read: servers may answer with the resources below the one that was asked for.
func (v *view) withoutDenied(t target, raw json.RawMessage) json.RawMessage {
	if v.filter.empty() {
		return raw
	}
	out, _ := within(raw, "contents", func(contents json.RawMessage) (json.RawMessage, bool) {
		var all []json.RawMessage
		_ = json.Unmarshal(contents, &all) // none if it is no list
		kept := slices.DeleteFunc(slices.Clone(all), func(entry json.RawMessage) bool {
			var uri string
			_ = json.Unmarshal(fields(entry)["uri"], &uri) // "" is no URI
			other := target{t.server, uri}
			return other != t && !v.filter.admits(catalog.Resources, other, v.export(other))
		})
		if len(kept) == len(all) {
			return contents, false
		}
		return encode(kept), true
	})
	return out
}

// completed removes values from the result of a completion that would reveal what the filter does
// not admit. For a template these are values with which it expands to such a URI, if the client
// named the other variables, or all URIs that it can expand to then have the same fate. Of
// other values only URIs can do so that Deny matches.
func (v *view) completed(kind catalog.Kind, t target, params map[string]json.RawMessage, raw json.RawMessage) json.RawMessage {
	if v.filter.empty() {
		return raw
	}
	reveals := func(value string) bool {
		is, ok := formsOf(value)
		return ok && v.filter.denies(t.server, is)
	}
	if kind == catalog.Templates {
		reveals = v.expansionReveals(t, params)
	}
	out, _ := within(raw, "completion", func(completion json.RawMessage) (json.RawMessage, bool) {
		all := fields(completion)
		var values, kept []string
		if json.Unmarshal(all["values"], &values) == nil {
			kept = slices.DeleteFunc(slices.Clone(values), reveals)
		}
		if len(kept) == len(values) && values != nil {
			return completion, false
		}
		all["values"] = encode(append([]string{}, kept...))
		delete(all, "total") // it counts those that are removed
		return encode(all), true
	})
	return out
}

// expansionReveals returns the function that reports whether a value of the argument in params
// must not be shown. Variables that the client did not name get a value that only "*" matches.
func (v *view) expansionReveals(t target, params map[string]json.RawMessage) func(value string) bool {
	var argument string
	_ = json.Unmarshal(fields(params["argument"])["name"], &argument) // "" is no variable
	variables, _ := uritemplate.Variables(t.key)                      // none if it is invalid
	given := map[string]string{}
	for _, name := range variables {
		given[name] = "~" + name + "~"
	}
	for name, raw := range fields(fields(params["context"])["arguments"]) {
		var value string
		if _, known := given[name]; known && json.Unmarshal(raw, &value) == nil {
			given[name] = value
		}
	}
	return func(value string) bool {
		given[argument] = value
		uri, err := uritemplate.Expand(t.key, given)
		at := target{t.server, uri}
		return err != nil || !v.filter.admits(catalog.Resources, at, v.export(at))
	}
}
