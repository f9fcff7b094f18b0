// Package eventstream writes and parses server-sent events (WHATWG HTML, section 9.2). It
// knows nothing of what the events say.
//
// Writing: [Append], [AppendRetry] and [AppendComment] build frames; [Append] yields
// exactly one event whatever its arguments contain. A [Writer] sends frames to an HTTP
// client with a deadline for each part, so that a client that stops reading is found.
//
// Parsing: a [Parser] is fed bytes as they pass by; a [Reader] pulls events from an
// io.Reader. Both accept LF, CR and CRLF, a byte order mark, data of several lines and
// unknown fields, and ignore an id that no Last-Event-ID header could carry back. An
// event that the end of the stream cuts off is discarded, as the specification demands.
//
// Memory: a parser holds one event of at most the size it was given; a larger one is
// [ErrTooLarge]. Comments do not count, however many there are between two events.
//
// Why no library: the parsers in maintained modules (r3labs/sse, tmaxmax/go-sse) bring a
// client or a hub of their own, and none of them can watch a stream that another reader
// consumes.
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

// maxID bounds an id: a longer one would not fit into the headers of a request.
const maxID = 4 << 10

// ErrTooLarge is the error of an event that is larger than the parser's limit.
var ErrTooLarge = errors.New("event too large")

// IsStream reports whether a Content-Type header announces an event stream.
func IsStream(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == ContentType
}

// ValidID reports whether an id can be sent back in a Last-Event-ID header. The
// specification excludes only NUL; HTTP excludes every control character.
func ValidID(id string) bool {
	return len(id) <= maxID && !strings.ContainsFunc(id, func(r rune) bool { return r < 0x20 || r == 0x7f })
}
