package natslog

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// subjects are the subjects of a log, below the name of its stream. The log has
//
//	event.<server>.<resource>     events; <resource> is - if there is none
//	event.<server>.list-<kind>    events that tell a list
//	event.<lease>.lease           fences
//	content.<server>.<resource>   events with a digest of content, and removals
//
// the states beside it
//
//	state.<server>.<resource>         the state of a resource
//	state.<server>.list.<kind>[.<n>]  a list, in parts
//	state.<server>.server             the announcement about the server
//
// and the texts text.<digest>.
type subjects string

// of returns the subject, or pattern, below the stream's name.
func (s subjects) of(below string) string { return string(s) + "." + below }

// event returns the subject of an event. Events with a digest of content have one subject per
// resource, and events that tell a list one per list, so that the last one is found without reading
// the log.
func (s subjects) event(e *event.Event) string {
	if name, _, ok := journal.KnownList(e); ok {
		return s.list(serverToken(name.ServerID), name.Kind)
	}
	r := journal.ResourceID{ServerID: e.ServerID, URI: e.ResourceURI}
	if _, _, content := journal.Known(e); content {
		return s.of("content.") + resourceToken(r)
	}
	return s.of("event.") + resourceToken(r)
}

// selected returns the subjects of a selection; nil means all.
func (s subjects) selected(sel journal.Selection) []string {
	switch server := serverToken(sel.ServerID); {
	case sel.ServerID == "":
		return nil
	case sel.URI == "":
		return []string{s.of("event." + server + ".*"), s.of("content." + server + ".*")}
	}
	return []string{s.of("content.") + resourceToken(journal.ResourceID{ServerID: sel.ServerID, URI: sel.URI})}
}

// list returns the subject of the events that tell a list; server is a token, or * for all servers.
func (s subjects) list(server string, kind catalog.Kind) string {
	return s.of("event.") + server + ".list-" + string(kind)
}

// fence returns the subject on which each holder of a lease stores its first event. The store
// accepts events under the lease only while the holder's event is the last one on that subject,
// even if the process was suspended or disconnected.
func (s subjects) fence(lease string) string {
	return s.of("event.") + serverToken(lease) + ".lease"
}

// resourceToken returns the resource as two tokens of a subject. They are hashes, because names are
// hostile and subjects have a grammar; the data has the names.
func resourceToken(r journal.ResourceID) string {
	if r.URI == "" {
		return serverToken(r.ServerID) + ".-"
	}
	uri := sha256.Sum256([]byte(r.URI))
	return serverToken(r.ServerID) + "." + hex.EncodeToString(uri[:16])
}

// serverToken returns the server as a token of a subject.
func serverToken(id string) string {
	server := sha256.Sum256([]byte(id))
	return hex.EncodeToString(server[:8])
}
