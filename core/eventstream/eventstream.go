// Package eventstream writes and parses server-sent events (WHATWG HTML, section 9.2). It does not
// interpret the events.
//
// Writing: [Append], [AppendRetry] and [AppendComment] build frames. [Append] produces exactly one
// event, whatever its arguments contain. A [Writer] sends frames to an HTTP client with a deadline
// for each part, so that a client that stops reading is detected.
//
// Parsing: a caller passes bytes to a [Parser] as they arrive, whereas a [Reader] pulls events from
// an io.Reader. Both accept LF, CR and CRLF, a byte order mark, multi-line data and unknown fields,
// and ignore ids that cannot be sent in a Last-Event-ID header. If the stream ends in the middle of
// an event, the event is discarded, as the specification requires.
//
// Memory: a parser buffers one event up to a given size; a larger event fails with [ErrTooLarge].
// Comments do not count, no matter how many there are between two events.
//
// Why no library: the parsers in maintained modules (r3labs/sse, tmaxmax/go-sse) are tied to a
// client or a hub, and none can observe a stream that another reader consumes.
package eventstream

import (
	"errors"
	"mime"
	"strings"
)

// ContentType is the media type of an event stream.
const ContentType = "text/event-stream"

// DefaultType is the type of events that have no event field.
const DefaultType = "message"

// maxID is the maximum length of an event id in bytes. A longer id would not fit into request
// headers.
const maxID = 4 << 10

// ErrTooLarge reports an event that exceeds the parser's limit.
var ErrTooLarge = errors.New("event too large")

// IsStream reports whether a Content-Type header specifies an event stream.
func IsStream(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == ContentType
}

// ValidID reports whether an id can be sent in a Last-Event-ID header. The specification excludes
// only NUL; HTTP excludes every control character.
func ValidID(id string) bool {
	return len(id) <= maxID && !strings.ContainsFunc(id, func(r rune) bool { return r < 0x20 || r == 0x7f })
}
