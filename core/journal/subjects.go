package journal

import "github.com/mcptrack/mcptrack/core/event"

// subjects are the subjects of a log, below the name of its stream.
type subjects string

// of returns the subject, or pattern, below the stream's name.
func (s subjects) of(below string) string { return string(s) + "." + below }

// event returns the subject of an event. Events with a digest of content have one subject per
// resource, so that the last one about each resource is found without reading the log.
func (s subjects) event(e *event.Event) string {
	class := "event."
	switch p := e.Payload.(type) {
	case event.ResourceUpdated:
		if !p.Digest.IsZero() {
			class = "content."
		}
	case event.ResourceRemoved:
		class = "content."
	}
	return s.of(class) + Resource{e.ServerID, e.ResourceURI}.token()
}

// fence returns the subject on which each holder of a lease stores its first event. Events
// appended under the lease are stored only while the last event on that subject is the
// holder's. The store checks that, so it is also true of a process that was suspended or
// disconnected.
func (s subjects) fence(lease string) string {
	return s.of("event.") + Resource{ServerID: lease}.server() + ".lease"
}
