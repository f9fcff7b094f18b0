package sse

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// heartbeat is a comment: proxies see a stream that lives, clients see nothing.
const heartbeat = ": heartbeat\n\n"

// quote returns s as a JSON string in one line, without escapes for HTML: URIs are
// full of &.
func quote(s string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return printable.JSON(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

func retry(d time.Duration) string {
	return "retry: " + strconv.FormatInt(d.Milliseconds(), 10) + "\n\n"
}

func handshake(now time.Time) string {
	return `data: {"type":"handshake","status":"ready","timestamp":` + strconv.FormatInt(now.UnixMilli(), 10) + "}\n\n"
}

// stopped is the last frame of a stream that ends because the tracker does.
func stopped(feed bool, now time.Time) string {
	if feed {
		return `data: {"type":"tracker_stopped","timestamp":` + strconv.FormatInt(now.UnixMilli(), 10) + "}\n\n"
	}
	return "event: tracker_stopped\ndata: {\"type\":\"tracker_stopped\",\"timestamp\":\"" +
		now.UTC().Format(event.TimeFormat) + "\"}\n\n"
}

// checkpoint tells a client an id without an event. It has data since browsers do
// not agree on whether an id alone counts.
func checkpoint(epoch string, seq uint64, now time.Time) string {
	id := event.FormatID(epoch, seq)
	return "id: " + id + "\nevent: checkpoint\ndata: {\"id\":\"" + id + "\",\"type\":\"checkpoint\",\"timestamp\":\"" +
		now.UTC().Format(event.TimeFormat) + "\",\"seq\":" + strconv.FormatUint(seq, 10) + "}\n\n"
}
