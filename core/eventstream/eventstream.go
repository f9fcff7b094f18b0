// Package eventstream writes and parses server-sent events (WHATWG HTML, section 9.2). It does not
// interpret the events.
//
// Writing: [Append], [AppendRetry] and [AppendComment] build frames; [Append] yields exactly one
// event whatever its arguments contain. A [Writer] sends frames to an HTTP client with a deadline
// for each part, so a client that stops reading is noticed.
//
// Parsing: a [Parser] is fed bytes as they pass by; a [Reader] pulls events from an io.Reader. Both
// accept LF, CR and CRLF, a byte order mark, multi-line data and unknown fields, and ignore ids
// that no Last-Event-ID header can carry. An event that the end of the stream truncates is
// discarded, as the specification demands.
//
// Memory: a parser holds one event of at most the given size; a larger event is [ErrTooLarge].
// Comments do not count, however many there are between two events.
//
// Why no library: the parsers in maintained modules (r3labs/sse, tmaxmax/go-sse) come with a client
// or a hub, and none can watch a stream that another reader consumes.
package eventstream

import (
	"errors"
	"mime"
	"strings"
)

// ContentType is the media type of an event stream.
const ContentType = "text/event-stream"

// DefaultType is the type of an event without an event field.
const DefaultType = "message"

// maxID bounds an id: a longer id would not fit into request headers.
const maxID = 4 << 10

// ErrTooLarge is the error for an event that exceeds the parser's limit.
var ErrTooLarge = errors.New("event too large")

// IsStream reports whether a Content-Type header announces an event stream.
func IsStream(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == ContentType
}

// ValidID reports whether a Last-Event-ID header can carry an id. The specification excludes only
// NUL; HTTP excludes every control character.
func ValidID(id string) bool {
	return len(id) <= maxID && !strings.ContainsFunc(id, func(r rune) bool { return r < 0x20 || r == 0x7f })
}
