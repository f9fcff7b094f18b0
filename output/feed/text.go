package feed

import (
	"strconv"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/eventstream"
)

// appendStopped appends the last frame of a stream that ends because the tracker stops.
func appendStopped(b []byte, feed bool, now time.Time) []byte {
	if feed {
		return appendVibeChat(b, "", vibeChat{Type: vibeStopped, Timestamp: now.UnixMilli()})
	}
	return eventstream.Append(b, "", "tracker_stopped", []byte(`{"type":"tracker_stopped","timestamp":"`+now.UTC().Format(event.TimeFormat)+`"}`))
}

// appendCheckpoint appends a checkpoint: an id from which a client can resume, without an event
// of the log. It has data since browsers differ on whether an id alone counts.
func appendCheckpoint(b []byte, epoch string, seq uint64, now time.Time) []byte {
	id := event.FormatID(epoch, seq)
	return eventstream.Append(b, id, "checkpoint", []byte(`{"id":"`+id+`","type":"checkpoint","timestamp":"`+
		now.UTC().Format(event.TimeFormat)+`","seq":`+strconv.FormatUint(seq, 10)+"}"))
}
