package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Entry is one event of the log, or a gap in it.
type Entry struct {
	// ID is the event's id; of a gap, the id of the last event that is missing.
	ID string
	// Seq is the number in ID.
	Seq uint64
	// Stored is when the store took it, by the store's clock.
	Stored time.Time
	// Data is the event in its wire form, one line without a line feed, id first.
	// It is shared: nobody changes it.
	Data []byte
	// Gap is set where events are missing, and Data is the gap event then.
	Gap *event.Gap

	local *event.Event // as it was appended by this process, if it was lately
}

// Event returns the entry as an event. One that this process appended a short
// time ago has what does not go on the wire too, such as Received and Text.
func (e *Entry) Event() (event.Event, error) {
	if e.local != nil {
		ev := *e.local
		ev.ID, ev.Seq = e.ID, e.Seq
		return ev, nil
	}
	var ev event.Event
	if err := json.Unmarshal(e.Data, &ev); err != nil {
		return event.Event{}, fmt.Errorf("journal: entry %s: %w", e.ID, err)
	}
	return ev, nil
}

// Received is when the notification behind the event arrived, if this process
// appended it a short time ago and there was one; else zero.
func (e *Entry) Received() time.Time {
	if e.local == nil {
		return time.Time{}
	}
	return e.local.Received
}

// entry makes an Entry of what is stored: the wire form without the id.
func entry(epoch string, seq uint64, stored time.Time, data []byte) Entry {
	id := event.FormatID(epoch, seq)
	line := make([]byte, 0, len(data)+len(id)+8)
	line = append(append(append(line, `{"id":"`...), id...), `",`...)
	return Entry{ID: id, Seq: seq, Stored: stored, Data: append(line, data[1:]...)}
}

// gapEntry tells that the events from first to last are missing.
func gapEntry(epoch string, first, last uint64, reason string) Entry {
	g := event.Gap{From: event.FormatID(epoch, first-1), To: event.FormatID(epoch, last), Reason: reason}
	e := event.Event{ID: g.To, Timestamp: time.Now(), Payload: g}
	data, _ := e.AppendJSON(nil) // ids and reasons always encode
	return Entry{ID: g.To, Seq: last, Data: data, Gap: &g}
}

// kept reports whether stored data has the form that entry needs.
func kept(data []byte) bool { return len(data) > 2 && data[0] == '{' && data[1] == '"' }

// tame returns what a cluster has stored as readers may have it: JSON in one line,
// in which nothing is hidden; nil if it is no such thing. Anybody on the cluster can
// put anything into the log, and readers show it on terminals.
func tame(data []byte) []byte {
	if !json.Valid(data) || !utf8.Valid(data) || bytes.ContainsAny(data, "\r\n") {
		return nil
	}
	return printable.JSON(data)
}

// Resource names a resource of a server.
type Resource struct{ ServerID, URI string }

// token is the resource as two tokens of a subject. Hashes, because both are
// hostile and subjects have a grammar; the names are in the data.
func (r Resource) token() string {
	server := sha256.Sum256([]byte(r.ServerID))
	if r.URI == "" {
		return hex.EncodeToString(server[:8]) + ".-"
	}
	uri := sha256.Sum256([]byte(r.URI))
	return hex.EncodeToString(server[:8]) + "." + hex.EncodeToString(uri[:16])
}

// subjectOf is where an event is stored. Those that tell a content are apart,
// so that the last one about every resource is found without reading the log.
func (j *Journal) subjectOf(e *event.Event) string {
	class := "event."
	switch p := e.Payload.(type) {
	case event.ResourceUpdated:
		if !p.Digest.IsZero() {
			class = "content."
		}
	case event.ResourceRemoved:
		class = "content."
	}
	return j.opts.Stream + "." + class + Resource{e.ServerID, e.ResourceURI}.token()
}
