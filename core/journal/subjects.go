package journal

import "github.com/mcptrack/mcptrack/core/event"

// subjects are those of a log, below the name of its stream.
type subjects string

// of is the subject, or pattern, below the stream's name.
func (s subjects) of(below string) string { return string(s) + "." + below }

// event is where an event is stored. Events that carry the digest of a content have
// subjects of their own, so that the last one about every resource is found without
// reading the log.
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

// fence is where the first event of every holder of a lease is stored. What is appended
// under a lease is stored only while the last event there is the holder's: the store
// checks that, so it holds for a process that was stopped or cut off, too.
func (s subjects) fence(lease string) string {
	return s.of("event.") + Resource{ServerID: lease}.server() + ".lease"
}
