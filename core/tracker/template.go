package tracker

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yosida95/uritemplate/v3"

	"github.com/mcptrack/mcptrack/core/printable"
)

// ExpandTemplate fills in a URI template (RFC 6570). Variables without a parameter
// expand to nothing. A parameter that it has no variable for is an error that names
// those it has.
func ExpandTemplate(template string, params map[string]string) (string, error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("expand template %q: %w", printable.Line(template, 300), err)
	}
	t, err := uritemplate.New(template)
	if err != nil {
		return fail(err)
	}
	values := uritemplate.Values{}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !slices.Contains(t.Varnames(), name) {
			return fail(fmt.Errorf("it has no variable %q, but %s", printable.Line(name, 60),
				printable.Line(strings.Join(t.Varnames(), ", "), 300)))
		}
		if v := params[name]; !utf8.ValidString(v) || strings.Contains(v, "\x00") {
			return fail(fmt.Errorf("the value of %q is no text", printable.Line(name, 60)))
		}
		values.Set(name, uritemplate.String(octets(params[name])))
	}
	uri, err := t.Expand(values)
	if err != nil {
		return fail(err)
	}
	if text, err := url.PathUnescape(uri); err == nil && !utf8.ValidString(text) {
		return fail(errors.New("it cuts a value within a character"))
	}
	return uri, nil
}

// octets returns a text with one character for every octet of its UTF-8 form. The
// library escapes code points where the RFC (section 3.2.1) wants octets: ü would
// become %FC instead of %C3%BC.
func octets(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}
