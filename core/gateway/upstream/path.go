package upstream

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// A piece of a path is either fixed text, escaped as it is sent, or the
// name of a parameter.
type piece struct{ text, param string }

// parsePath splits a path at its placeholders.
func parsePath(path string) ([]piece, error) {
	switch {
	case path == "":
		return nil, errors.New("the entry has no path")
	case len(path) > maxPath:
		return nil, fmt.Errorf("the path is longer than %d bytes", maxPath)
	case !strings.HasPrefix(path, "/api/"):
		return nil, errors.New("the path does not begin with /api/")
	}
	var pieces []piece
	for rest := path; rest != ""; {
		fixed, after, found := strings.Cut(rest, string(placeholderLeft))
		if fixed != "" {
			pieces = append(pieces, piece{text: fixed})
		}
		if !found {
			break
		}
		name, next, closed := strings.Cut(after, "}")
		if !closed || !validName(name) || strings.ContainsRune(name, placeholderLeft) || !oneSegment(name) {
			return nil, errors.New("the path has a malformed placeholder; expected {name}")
		}
		pieces = append(pieces, piece{param: name})
		rest = next
	}
	for _, p := range pieces {
		if strings.IndexFunc(p.text, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune("\"#<>?\\^`{|}", r)
		}) >= 0 {
			return nil, errors.New("the path has characters that are not allowed in a URL path")
		}
	}
	if _, err := url.PathUnescape(path); err != nil {
		return nil, errors.New("the path has an invalid percent-encoding")
	}
	if strings.Contains(path, "..") || escapesPath(path) {
		return nil, errors.New("the path has dot segments, backslashes or control characters")
	}
	return pieces, nil
}

// escapesPath reports whether a path, or a text that becomes part of one, could be
// resolved to another path by a server or proxy that decodes it more than once.
func escapesPath(s string) bool {
	for range maxDecoding {
		if hasDotSegment(s) {
			return true
		}
		next, err := url.PathUnescape(s)
		if err != nil || next == s {
			return false
		}
		s = next
	}
	return true
}

// oneSegment reports whether a text stays one segment of a path however often it is
// decoded: behind WSGI, for example, %2F reaches other routes.
func oneSegment(s string) bool {
	for range maxDecoding {
		if strings.ContainsAny(s, `/\`) {
			return false
		}
		next, err := url.PathUnescape(s)
		if err != nil || next == s {
			return true
		}
		s = next
	}
	return false
}

// hasDotSegment reports whether a path has dot segments, backslashes or control
// characters.
func hasDotSegment(s string) bool {
	return slices.ContainsFunc(strings.Split(s, "/"), func(segment string) bool { return segment == "." || segment == ".." }) ||
		strings.IndexFunc(s, func(r rune) bool { return r == '\\' || unicode.IsControl(r) }) >= 0
}
