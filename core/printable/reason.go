package printable

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Reason returns a user-readable description of an error, as one line of at most limit runes. It
// rewrites the errors from Go's standard library that err contains in plain words: it omits the
// names of system calls and functions, and the URL of a request, because its query may be secret.
// It keeps file paths and network addresses; see [Unnamed]. Lines are joined as by [Flat].
func Reason(err error, limit int) string {
	if err == nil {
		return ""
	}
	return Line(Flat(reason(err)), limit)
}

// Unnamed removes from an error the path, URL or address that Go's standard library prepends, and
// everything that wraps that error. Use it for a message that already specifies the file or
// address.
func Unnamed(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	if e, ok := err.(*net.OpError); ok { //nolint:errorlint // errors that wrap it contain more information
		err = e.Err
	}
	if e, ok := err.(*os.SyscallError); ok { //nolint:errorlint // as above
		err = e.Err
	}
	return err
}

// reason returns the text of an error, with all errors that it wraps rewritten in plain words.
func reason(err error) string {
	if text := plain(err); text != "" {
		return text
	}
	text := err.Error()
	switch e := err.(type) { //nolint:errorlint // every error in the tree is examined
	case interface{ Unwrap() error }:
		if strings.HasPrefix(text, "net/http: HTTP/1.x transport connection broken: ") || strings.HasPrefix(text, "net/http: Transport failed to read from server: ") {
			return reason(e.Unwrap())
		}
		return inner(text, e.Unwrap())
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		if joined := errors.Join(all...); joined != nil && joined.Error() == text {
			texts := make([]string, len(all))
			for i, one := range all {
				texts[i] = reason(one)
			}
			return strings.Join(texts, "; ")
		}
		for _, one := range all {
			text = inner(text, one)
		}
	}
	return text
}

// inner replaces the text of a wrapped error with the plain words that reason returns for it.
func inner(text string, err error) string {
	if err == nil {
		return text
	}
	was := err.Error()
	if i := strings.LastIndex(text, was); i >= 0 && was != "" {
		return text[:i] + reason(err) + text[i+len(was):]
	}
	return text
}

// plain returns a description of an error from Go's standard library in plain words, or "" for any
// other error.
func plain(err error) string {
	switch err { //nolint:errorlint // the caller unwraps errors one by one
	case context.DeadlineExceeded, os.ErrDeadlineExceeded:
		return "timed out"
	case context.Canceled:
		return "cancelled"
	case http.ErrSchemeMismatch:
		return "the other side does not use TLS"
	case io.EOF:
		return "the connection was closed"
	case io.ErrUnexpectedEOF:
		return "the data ended unexpectedly"
	}
	switch e := err.(type) { //nolint:errorlint // as above
	case *url.Error:
		return reason(e.Err)
	case *fs.PathError:
		return Line(e.Path, 256) + ": " + reason(e.Err)
	case *os.LinkError:
		return Line(e.New, 256) + ": " + reason(e.Err)
	case *os.SyscallError:
		return reason(e.Err)
	case *net.OpError:
		return network(e)
	case *net.DNSError:
		if e.IsNotFound {
			return fmt.Sprintf("there is no host named \"%s\"", Line(e.Name, 256))
		}
		if e.IsTimeout {
			return fmt.Sprintf("cannot look up the host \"%s\": timed out", Line(e.Name, 256))
		}
		return fmt.Sprintf("cannot look up the host \"%s\": %s", Line(e.Name, 256), e.Err)
	case *net.AddrError:
		return fmt.Sprintf("invalid address \"%s\": %s", Line(e.Addr, 256), e.Err)
	case *tls.CertificateVerificationError:
		return "the server's certificate is not valid: " + reason(e.Err)
	case textproto.ProtocolError:
		return "the other side sends headers that are not valid"
	case tls.RecordHeaderError:
		return "the other side does not use TLS"
	case *exec.Error:
		return fmt.Sprintf("cannot run \"%s\": %s", Line(e.Name, 256), reason(e.Err))
	case *strconv.NumError:
		if errors.Is(e.Err, strconv.ErrRange) {
			return fmt.Sprintf("the number \"%s\" is out of range", Line(e.Num, 64))
		}
		return fmt.Sprintf("invalid number \"%s\"", Line(e.Num, 64))
	case *json.SyntaxError:
		return fmt.Sprintf("invalid JSON after %d bytes: %s", e.Offset, e.Error())
	case *json.UnmarshalTypeError:
		if e.Field != "" {
			return fmt.Sprintf("invalid JSON: \"%s\" cannot be a %s", Line(e.Field, 128), e.Value)
		}
		return "invalid JSON: unexpected " + e.Value
	case syscall.Errno, interface{ Unwrap() error }, interface{ Unwrap() []error }:
		return ""
	case interface{ Timeout() bool }: // for example, the error for http.Client.Timeout
		if e.Timeout() {
			return "timed out"
		}
	}
	if strings.HasPrefix(err.Error(), "malformed HTTP ") { // a response, its status, or its version
		return "the other side does not speak HTTP"
	}
	// Errors in the standard library that wrap no other error start with the name of their package.
	for _, pkg := range []string{"time: ", "http: ", "net/http: ", "tls: ", "x509: ", "exec: ", "json: "} {
		if text, ok := strings.CutPrefix(err.Error(), pkg); ok {
			return text
		}
	}
	return ""
}

// network describes the failure of an operation on a network connection.
func network(e *net.OpError) string {
	text := reason(e.Err)
	switch {
	case e.Addr == nil, e.Op != "dial" && e.Op != "listen":
		return text
	case e.Op == "listen":
		return fmt.Sprintf("cannot listen on %s: %s", e.Addr, text)
	}
	return fmt.Sprintf("cannot connect to %s: %s", e.Addr, text)
}
