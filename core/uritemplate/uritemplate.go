// Package uritemplate expands and matches URI templates (RFC 6570, all levels). Templates and
// values may come from an attacker: a template that the library cannot handle causes an error,
// never a panic.
//
// Library: yosida95/uritemplate/v3 (BSD) implements the whole RFC and builds the regular
// expressions. This package works around a bug in the library (see octets) and limits the length of
// templates.
package uritemplate

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yosida95/uritemplate/v3"

	"github.com/mcptrack/mcptrack/core/printable"
)

// MaxLength is the maximum length of a template in bytes.
const MaxLength = 2048

// Errors for invalid templates.
var (
	ErrInvalid  = errors.New("invalid URI template (RFC 6570)")
	ErrTooLarge = errors.New("the URI template is too large")
)

func parse(template string) (*uritemplate.Template, error) {
	if len(template) > MaxLength {
		return nil, ErrTooLarge
	}
	t, err := uritemplate.New(template)
	if err != nil {
		return nil, ErrInvalid
	}
	return t, nil
}

// Variables returns the names of the template's variables, in order of appearance.
func Variables(template string) ([]string, error) {
	t, err := parse(template)
	if err != nil {
		return nil, err
	}
	return t.Varnames(), nil
}

// Pattern returns a regular expression that matches every URI to which the template can expand.
func Pattern(template string) (re *regexp.Regexp, err error) {
	t, err := parse(template)
	if err != nil {
		return nil, err
	}
	defer func() {
		if recover() != nil { // the library panics if the regular expression is too large
			re, err = nil, ErrTooLarge
		}
	}()
	return t.Regexp(), nil
}

// Expand expands the template. A variable without a parameter expands to nothing, as the RFC
// specifies. A parameter that is not a variable of the template causes an error.
func Expand(template string, params map[string]string) (string, error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("expand template %q: %w", printable.Line(template, 300), err)
	}
	t, err := parse(template)
	if err != nil {
		return fail(err)
	}
	values := uritemplate.Values{}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !slices.Contains(t.Varnames(), name) {
			return fail(fmt.Errorf("unknown variable %q; the template has %s", printable.Line(name, 60),
				printable.Line(strings.Join(t.Varnames(), ", "), 300)))
		}
		if v := params[name]; !utf8.ValidString(v) || strings.Contains(v, "\x00") {
			return fail(fmt.Errorf("the value of %q is not valid text", printable.Line(name, 60)))
		}
		values.Set(name, uritemplate.String(octets(params[name])))
	}
	uri, err := t.Expand(values)
	if err != nil {
		return fail(errors.New("the template cannot be expanded with these values"))
	}
	if text, err := url.PathUnescape(uri); err == nil && !utf8.ValidString(text) {
		return fail(errors.New("a prefix modifier such as {name:3} would split a character of a value; use another value"))
	}
	return uri, nil
}

// octets returns a string with one character for each byte of s. It works around a library bug that
// escapes code points, where the RFC (section 3.2.1) requires octets: ü would become %FC instead of
// %C3%BC.
func octets(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}
