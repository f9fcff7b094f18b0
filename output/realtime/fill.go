package realtime

import (
	"errors"
	"io"
)

// fill reads until buf is full or the message ends; whole says that it has ended. For a message
// that fills buf exactly, only the next call, which reads zero bytes, says so.
func fill(r io.Reader, buf []byte) (n int, whole bool, err error) {
	for n < len(buf) {
		m, err := r.Read(buf[n:])
		n += m
		if err == io.EOF { //nolint:errorlint // a wrapped one is a stream that broke off
			return n, true, nil
		}
		if err != nil {
			return n, false, err
		}
	}
	return n, false, nil
}

// errTruncated is the error of a stream that ended within a message.
var errTruncated = errors.New("the connection was lost in the middle of a message")
