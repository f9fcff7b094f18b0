// Package event defines the events of a tracker: one envelope for stdout, the SSE
// feed, the log and embedders.
//
// An [Event] is a header and a typed [Payload]; on the wire the two are one flat
// JSON object in one line. An event is not modified after it was published, so
// goroutines share it without a lock.
//
// Events are states, not edges. Once a resource no longer changes, its last event
// describes its current content; states in between may have been merged.
//
// To add a type of event, declare its constant and its payload struct with a Type
// method, and add one row to [Definitions]. Decoding, filters, completion, --count and
// the help follow from these; output/lines describes it, and the dashboard lists the types
// that it listens to in assets/feed.js.
package event

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Event is one thing that happened.
type Event struct {
	// ID is the epoch in 16 hex digits, a hyphen, and a number that rises by one
	// with every event of the epoch. It is the SSE id and the key by which every
	// sink can recognise a repetition. Set by the log.
	ID string
	// Seq is the number in ID.
	Seq uint64
	// ServerID is the server's id in the config; "" for events about no server.
	ServerID string
	// ResourceURI is set on events about one resource.
	ResourceURI string
	// Timestamp is when the thing was noticed, in UTC; shown with three fractional digits.
	Timestamp time.Time
	// Cause says how the thing was noticed; "" where that does not apply.
	Cause Cause
	// Payload is what happened. Its dynamic type determines the event's type.
	Payload Payload
	// Exported is set by a gateway that stores the event, and says under which names and URIs
	// its clients find what the event is about, by the names and URIs of the server: those that
	// differ. It is nil where no gateway did, and then there is no such member on the wire.
	Exported map[string]string
	// Received is when the server's notification arrived that led to the event; zero if
	// none did. It is for measuring and is not part of the wire form.
	Received time.Time
}

// Type returns the payload's type, "" without one.
func (e *Event) Type() Type {
	if e.Payload == nil {
		return ""
	}
	return e.Payload.Type()
}

// Payload is what an event says beyond its header. The implementations are listed in
// [Definitions].
type Payload interface{ Type() Type }

// Cause says how a change was noticed.
type Cause string

// The causes.
const (
	// CauseNotify: the server announced the change, outside the window of an earlier event.
	CauseNotify Cause = "notify"
	// CauseTrailing: the change was announced within the window of an earlier event, and
	// is published at the end of the window because the content differs from what was
	// published last.
	CauseTrailing Cause = "trailing"
	// CauseResync: the change was found by comparing everything again after a time in which
	// notifications may have been lost.
	CauseResync Cause = "resync"
	// CausePoll: the change was found by reading from a server that does not push.
	CausePoll Cause = "poll"
	// CauseEvent: the change was found by reading or listing again what an event of the
	// server (MCP Events) named.
	CauseEvent Cause = "event"
)

// known reports whether this version knows the cause.
func (c Cause) known() bool {
	switch c {
	case "", CauseNotify, CauseTrailing, CauseResync, CausePoll, CauseEvent:
		return true
	}
	return false
}

// FormatID returns the id of an event.
func FormatID(epoch string, seq uint64) string {
	return epoch + "-" + strconv.FormatUint(seq, 10)
}

// ParseID is the inverse of [FormatID].
func ParseID(id string) (epoch string, seq uint64, err error) {
	epoch, number, _ := strings.Cut(id, "-")
	if _, err = strconv.ParseUint(epoch, 16, 64); err == nil && epoch == strings.ToLower(epoch) {
		if seq, err = strconv.ParseUint(number, 10, 64); err == nil && FormatID(epoch, seq) == id {
			return epoch, seq, nil
		}
	}
	return "", 0, fmt.Errorf("invalid event id %q", printable.Line(id, 64))
}
