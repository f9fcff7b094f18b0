package gateway

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/uritemplate"
)

// Results refer to resources by the server's URIs. If a URI is exported in another form, the result
// is rewritten; otherwise its bytes are forwarded unchanged.

// rewriter rewrites one result from a server.
type rewriter struct {
	*exports
	server string
	// left limits the time spent on one result: it is the number of bytes of URIs that may still be
	// matched, counted once per template. When it is used up, URIs are replaced with their
	// qualified form, which is always correct and needs no matching.
	left int
}

func (v *exports) rewriter(server string) *rewriter { return &rewriter{v, server, 8 << 20} }

// rewriteContent rewrites the URIs of resource links and embedded resources in the result of a tool
// call.
func (v *exports) rewriteContent(server string, raw json.RawMessage) json.RawMessage {
	if v.keepsURIs() {
		return raw
	}
	return v.rewrite(raw, "content", v.rewriter(server).block)
}

// rewriteMessages rewrites the URIs of resource links and embedded resources in the messages of a
// prompt.
func (v *exports) rewriteMessages(server string, raw json.RawMessage) json.RawMessage {
	if v.keepsURIs() {
		return raw
	}
	r := v.rewriter(server)
	return v.rewrite(raw, "messages", func(message json.RawMessage) (json.RawMessage, bool) {
		return within(message, "content", func(content json.RawMessage) (json.RawMessage, bool) {
			if len(content) > 0 && content[0] == '[' {
				return each(content, r.block)
			}
			return r.block(content)
		})
	})
}

// rewriteContents rewrites the result of reading a resource. The resource itself keeps the URI that
// the client requested.
func (v *exports) rewriteContents(t target, asked string, raw json.RawMessage) json.RawMessage {
	if asked == t.key && v.keepsURIs() {
		return raw
	}
	r := v.rewriter(t.server)
	return v.rewrite(raw, "contents", func(entry json.RawMessage) (json.RawMessage, bool) {
		return within(entry, "uri", func(uri json.RawMessage) (json.RawMessage, bool) {
			var key string
			if json.Unmarshal(uri, &key) == nil && key == t.key {
				return quote(asked), asked != key
			}
			return r.uri(uri)
		})
	})
}

// keepsURIs reports whether all URIs are exported unchanged.
func (v *exports) keepsURIs() bool { return v.only != "" && len(v.qualified) == 0 }

func (v *exports) rewrite(raw json.RawMessage, list string, f func(json.RawMessage) (json.RawMessage, bool)) json.RawMessage {
	if !bytes.Contains(raw, []byte(`"uri"`)) {
		return raw
	}
	out, _ := within(raw, list, func(elements json.RawMessage) (json.RawMessage, bool) { return each(elements, f) })
	return out
}

// block rewrites the URI in a content block.
func (r *rewriter) block(raw json.RawMessage) (json.RawMessage, bool) {
	switch string(fields(raw)["type"]) {
	case `"resource_link"`:
		return within(raw, "uri", r.uri)
	case `"resource"`:
		return within(raw, "resource", func(resource json.RawMessage) (json.RawMessage, bool) {
			return within(resource, "uri", r.uri)
		})
	}
	return raw, false
}

func (r *rewriter) uri(raw json.RawMessage) (json.RawMessage, bool) {
	var uri string
	if json.Unmarshal(raw, &uri) != nil || uri == "" {
		return raw, false
	}
	exported := r.filter.alias.qualify(target{r.server, uri})
	if r.left -= len(uri) * (1 + len(r.templates)); r.left >= 0 {
		exported = r.export(target{r.server, uri})
	}
	if exported == uri {
		return raw, false
	}
	return quote(exported), true
}

// filterContents removes the contents of resources that the filter does not admit from the result
// of a read, because a server may also return resources under the requested one.
func (v *exports) filterContents(t target, raw json.RawMessage) json.RawMessage {
	if v.filter.empty() {
		return raw
	}
	out, _ := within(raw, "contents", func(contents json.RawMessage) (json.RawMessage, bool) {
		var all []json.RawMessage
		_ = json.Unmarshal(contents, &all) // stays empty if contents is not a list
		kept := slices.DeleteFunc(slices.Clone(all), func(entry json.RawMessage) bool {
			var uri string
			_ = json.Unmarshal(fields(entry)["uri"], &uri) // stays empty on an error, which is not a URI
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

// filterCompletion removes completion values that would reveal URIs that the filter does not admit.
// For a template, it removes a value if the template, expanded with it and with the variables that
// the client specified, results in such a URI. For a prompt with Deny, it removes only values that are URIs
// that Deny matches or that are not in normal form.
func (v *exports) filterCompletion(kind catalog.Kind, t target, params map[string]json.RawMessage, raw json.RawMessage) json.RawMessage {
	if v.filter.empty() {
		return raw
	}
	hidden := func(value string) bool {
		if is, ok := readURI(value); ok {
			return v.filter.denies(t.server, is)
		}
		return schemeEnd(value) > 0 && len(v.filter.deny.written) > 0
	}
	if kind == catalog.Templates {
		hidden = v.expandsToHidden(t, params)
	}
	out, _ := within(raw, "completion", func(completion json.RawMessage) (json.RawMessage, bool) {
		all := fields(completion)
		var values, kept []string
		if json.Unmarshal(all["values"], &values) == nil {
			kept = slices.DeleteFunc(slices.Clone(values), hidden)
		}
		if len(kept) == len(values) && values != nil {
			return completion, false
		}
		all["values"] = encode(append([]string{}, kept...))
		delete(all, "total") // the total includes the removed values
		return encode(all), true
	})
	return out
}

// expandsToHidden returns a function that reports whether a template, expanded with a value of the
// completed argument, results in a hidden URI. A variable that the client did not specify is
// replaced with a value that only wildcards match.
func (v *exports) expandsToHidden(t target, params map[string]json.RawMessage) func(value string) bool {
	var argument string
	_ = json.Unmarshal(fields(params["argument"])["name"], &argument) // stays empty on an error, which is not a variable
	variables, _ := uritemplate.Variables(t.key)                      // empty if the template is invalid
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
