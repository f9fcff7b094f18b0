package gateway

import "encoding/json"

// A tool of the extension MCP Apps names a resource that hosts show with its results, in
// _meta.ui.resourceUri, or in the older form _meta["ui/resourceUri"]. When that resource is
// exported under another URI, so is the tool's.

// appURI returns the URI of a tool's MCP App; "" if it has none.
func appURI(meta json.RawMessage) (uri string) {
	m := fields(meta)
	if json.Unmarshal(fields(m["ui"])["resourceUri"], &uri) != nil || uri == "" {
		_ = json.Unmarshal(m["ui/resourceUri"], &uri) // "" if it is not a string
	}
	return uri
}

// withAppURI replaces the URI of a tool's MCP App.
func withAppURI(tool json.RawMessage, uri string) json.RawMessage {
	out, _ := within(tool, "_meta", func(meta json.RawMessage) (json.RawMessage, bool) {
		meta, nested := within(meta, "ui", func(ui json.RawMessage) (json.RawMessage, bool) { return within(ui, "resourceUri", replaceBy(uri)) })
		meta, flat := within(meta, "ui/resourceUri", replaceBy(uri))
		return meta, nested || flat
	})
	return out
}

func replaceBy(uri string) func(json.RawMessage) (json.RawMessage, bool) {
	return func(json.RawMessage) (json.RawMessage, bool) { return quote(uri), true }
}
