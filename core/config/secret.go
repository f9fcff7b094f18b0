package config

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unique"

	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/printable"
)

// redacted is what a Secret shows in place of its value.
const redacted = "[secret]"

// A Secret is a string that no printer, encoder or logger shows: every one of
// them gets "[secret]", or "" when it is empty, so that an absent value differs
// from a hidden one. Only Reveal returns the value.
//
// Secrets are compared with ==. The zero Secret is the empty string.
//
// The value is behind a handle, not in a string field: fmt cannot call methods on unexported
// fields of other structs, and would print a plain string there, but of a handle only the
// address.
type Secret struct {
	handle unique.Handle[string]
}

// NewSecret hides a value.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{handle: unique.Make(value)}
}

// Reveal returns the value. Call it where the value is used, not earlier.
func (s Secret) Reveal() string {
	if s.IsZero() {
		return ""
	}
	return s.handle.Value()
}

// IsZero reports whether the value is empty.
func (s Secret) IsZero() bool { return s == Secret{} }

// Equal is ==, for comparing libraries that look for a method.
func (s Secret) Equal(o Secret) bool { return s == o }

// String returns "[secret]", or "" if the value is empty.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// GoString does as String, for %#v.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// Format writes the redacted form for every verb and flag.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'q' || (verb == 'v' && f.Flag('#')) {
		_, _ = io.WriteString(f, s.GoString())
		return
	}
	_, _ = io.WriteString(f, s.String())
}

// MarshalText gives the redacted form to every text encoder.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON gives the redacted form as a JSON string.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(s.GoString()), nil }

// LogValue gives the redacted form to slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// maxCommandLine is the longest command line that is shown, in runes.
const maxCommandLine = 4096

// CommandLine returns the program with its arguments in one line, for an operator to check
// before it is started. The values of Secrets, and credentials written into the arguments,
// appear as "[secret]"; arguments with spaces or the like are quoted. It is "" for servers
// without a command.
func (s Server) CommandLine() string {
	if s.Command == "" {
		return ""
	}
	var values []string
	for _, secret := range s.Secrets {
		if v := secret.Reveal(); len(v) >= 6 { // shorter ones match by chance
			values = append(values, v)
		}
	}
	// Longest first: if one value is a prefix of another, replacing it first would leave the
	// rest of the longer one visible.
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, v := range values {
		pairs = append(pairs, v, redacted)
	}
	hide := strings.NewReplacer(pairs...)
	words := []string{hide.Replace(s.Command)}
	for i, spans := range credential.FindArgs(s.Args) {
		word, at := "", 0
		for _, secret := range spans {
			word += hide.Replace(s.Args[i][at:secret.From]) + redacted
			at = secret.To
		}
		words = append(words, word+hide.Replace(s.Args[i][at:]))
	}
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, " \"'\\") || printable.Line(w, 0) != w {
			words[i] = strconv.Quote(w)
		}
	}
	return printable.Line(strings.Join(words, " "), maxCommandLine)
}

// minConfidential is the length below which a value is not treated as confidential: a short one
// occurs in ordinary text by chance.
const minConfidential = 8

// Confidential returns the values of the server that must not be stored where others may read
// them: the values of its Secrets and headers, secrets in its URL, and the values in its
// environment whose name or form is that of a secret.
func (s *Server) Confidential() []string {
	var values []string
	add := func(value string) {
		for _, v := range append(strings.Fields(value), value) {
			if len(v) >= minConfidential {
				values = append(values, v)
			}
		}
	}
	for _, v := range s.Secrets {
		add(v.Reveal())
	}
	for _, v := range s.Headers {
		add(v.Reveal())
	}
	for name, v := range s.Env {
		if value := v.Reveal(); credential.Named(name) || len(credential.Find(name, value)) > 0 {
			add(value)
		}
	}
	if u, err := url.Parse(s.URL.Reveal()); err == nil {
		if password, ok := u.User.Password(); ok {
			add(password)
		}
		for name, of := range u.Query() {
			for _, v := range of {
				if credential.Named(name) || credential.Token(v) {
					add(v)
				}
			}
		}
	}
	return values
}
