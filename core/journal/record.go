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
	// ID is the event's id, or that of the last missing event of a gap.
	ID string
	// Seq is the number in ID.
	Seq uint64
	// Stored is when the store received the event, by the store's clock.
	Stored time.Time
	// Data is the event in its wire form, one line without a line feed, id first.
	// It is shared and must not be changed.
	Data []byte
	// Gap is set if events are missing; Data is then the gap event.
	Gap *event.Gap

	local *event.Event // as appended by this process, if that was recently
}

// Event returns the entry as an event. One that this process appended a short
// time ago also has the members that are not stored, such as Received and Text.
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

// Local reports whether this process appended the event and still has it in memory, so
// that Event also returns the members that are not stored.
func (e *Entry) Local() bool { return e.local != nil }

// Received is when the notification behind the event arrived. It is zero if there was
// none, or if this process does not have the event in memory.
func (e *Entry) Received() time.Time {
	if e.local == nil {
		return time.Time{}
	}
	return e.local.Received
}

// entry makes an Entry from the stored form: the wire form without the id.
func entry(epoch string, seq uint64, stored time.Time, data []byte) Entry {
	id := event.FormatID(epoch, seq)
	line := make([]byte, 0, len(data)+len(id)+8)
	line = append(append(append(line, `{"id":"`...), id...), `",`...)
	return Entry{ID: id, Seq: seq, Stored: stored, Data: append(line, data[1:]...)}
}

// gapEntry returns the entry for the missing events from first to last.
func gapEntry(epoch string, first, last uint64, reason string) Entry {
	g := event.Gap{From: event.FormatID(epoch, first-1), To: event.FormatID(epoch, last), Reason: reason}
	e := event.Event{ID: g.To, Timestamp: time.Now(), Payload: g}
	data, _ := e.AppendJSON(nil) // ids and reasons always encode
	return Entry{ID: g.To, Seq: last, Data: data, Gap: &g}
}

// kept reports whether stored data has the form that entry needs.
func kept(data []byte) bool { return len(data) > 2 && data[0] == '{' && data[1] == '"' }

// sanitize returns what a cluster has stored as JSON in one line without hidden characters, or
// nil if it is not JSON in one line. Any client of the cluster can store anything in the log,
// and readers show it on terminals.
func sanitize(data []byte) []byte {
	if !json.Valid(data) || !utf8.Valid(data) || bytes.ContainsAny(data, "\r\n") {
		return nil
	}
	return printable.JSON(data)
}

// Resource identifies a resource of a server.
type Resource struct{ ServerID, URI string }

// token returns the resource as two tokens of a subject. They are hashes, because names are
// hostile and subjects have a grammar; the names are in the data.
func (r Resource) token() string {
	if r.URI == "" {
		return r.server() + ".-"
	}
	uri := sha256.Sum256([]byte(r.URI))
	return r.server() + "." + hex.EncodeToString(uri[:16])
}

// server returns the server as a token of a subject.
func (r Resource) server() string {
	server := sha256.Sum256([]byte(r.ServerID))
	return hex.EncodeToString(server[:8])
}
