package eventstream

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// Append appends one event. An id or type that is empty or would not fit in its line is left
// out. Data is split at its line ends and may be empty.
func Append(b []byte, id, typ string, data []byte) []byte {
	if id != "" && ValidID(id) {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	if typ != "" && !strings.ContainsAny(typ, "\r\n") {
		b = append(append(append(b, "event: "...), typ...), '\n')
	}
	for more := true; more; {
		var line []byte
		line, data, more = cutLine(data)
		b = append(append(append(b, "data: "...), line...), '\n')
	}
	return append(b, '\n')
}

// AppendID appends an event that only sets the id from which a client resumes; an empty id
// resets it. The id must be one that [ValidID] accepts.
func AppendID(b []byte, id string) []byte {
	return append(append(append(b, "id: "...), id...), "\n\n"...)
}

// AppendRetry appends the time that a client is to wait before it connects again.
func AppendRetry(b []byte, d time.Duration) []byte {
	return append(strconv.AppendInt(append(b, "retry: "...), d.Milliseconds(), 10), "\n\n"...)
}

// AppendComment appends a comment, which clients ignore, but which proxies count as traffic,
// so that they do not close an idle stream. The text must be one line.
func AppendComment(b []byte, text string) []byte {
	return append(append(append(b, ": "...), text...), "\n\n"...)
}

// cutLine cuts b after its first line end: LF, CR or CRLF.
func cutLine(b []byte) (line, rest []byte, more bool) {
	i := bytes.IndexAny(b, "\r\n")
	if i < 0 {
		return b, nil, false
	}
	rest = b[i+1:]
	if b[i] == '\r' {
		rest = bytes.TrimPrefix(rest, []byte("\n"))
	}
	return b[:i], rest, true
}
