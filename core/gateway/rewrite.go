package gateway

import (
	"bytes"
	"encoding/json"
)

// Results name resources by the server's URIs. Where these are exported under other
// URIs, the result is rewritten; otherwise its bytes are forwarded unchanged.

// rewriter rewrites one result of a server.
type rewriter struct {
	*view
	server string
	// left bounds the time for one result: how many bytes of URIs may still be matched,
	// counted once for every template. When it is used up, URIs get their qualified form,
	// which is always correct and takes no time.
	left int
}

func (v *view) rewriter(server string) *rewriter { return &rewriter{v, server, 8 << 20} }

// rewriteContent rewrites the resource links and embedded resources of a tool's result.
func (v *view) rewriteContent(server string, raw json.RawMessage) json.RawMessage {
	if v.keepsURIs() {
		return raw
	}
	return v.rewrite(raw, "content", v.rewriter(server).block)
}

// rewriteMessages rewrites the resource links and embedded resources of a prompt's result.
func (v *view) rewriteMessages(server string, raw json.RawMessage) json.RawMessage {
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

// rewriteContents rewrites the result of a read. The resource itself keeps the URI that
// the client asked for.
func (v *view) rewriteContents(t target, asked string, raw json.RawMessage) json.RawMessage {
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

// keepsURIs reports whether every URI is exported as it is.
func (v *view) keepsURIs() bool { return v.only != "" && len(v.qualified) == 0 }

func (v *view) rewrite(raw json.RawMessage, list string, f func(json.RawMessage) (json.RawMessage, bool)) json.RawMessage {
	if !bytes.Contains(raw, []byte(`"uri"`)) {
		return raw
	}
	out, _ := within(raw, list, func(elements json.RawMessage) (json.RawMessage, bool) { return each(elements, f) })
	return out
}

// block rewrites a content block.
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
	exported := qualify(r.server, uri)
	if r.left -= len(uri) * (1 + len(r.templates)); r.left >= 0 {
		exported = r.export(target{r.server, uri})
	}
	if exported == uri {
		return raw, false
	}
	return quote(exported), true
}

// within applies f to a member of an object, if present, and reports whether it changed.
// The order of the members stays. Of members with one name, all are changed.
func within(raw json.RawMessage, name string, f func(json.RawMessage) (json.RawMessage, bool)) (json.RawMessage, bool) {
	members, changed := readMembers(raw), false
	for i, m := range members {
		if m.name != name {
			continue
		}
		if value, ok := f(m.value); ok {
			members[i].value, changed = value, true
		}
	}
	if !changed {
		return raw, false
	}
	return writeMembers(members), true
}

// each applies f to the elements of an array and reports whether any changed.
func each(raw json.RawMessage, f func(json.RawMessage) (json.RawMessage, bool)) (json.RawMessage, bool) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return raw, false
	}
	changed := false
	for i, e := range list {
		if value, ok := f(e); ok {
			list[i], changed = value, true
		}
	}
	if !changed {
		return raw, false
	}
	return encode(list), true
}
