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

// redacted is displayed in place of the value of a Secret.
const redacted = "[secret]"

// A Secret is a string that is never revealed by formatting, encoding or logging: these print
// "[secret]", or an empty string if the value is empty, so that an absent value can be
// distinguished from a hidden one. Only Reveal returns the value.
//
// Secrets can be compared with ==. The zero Secret is the empty string.
//
// The value is stored behind a handle because fmt cannot call methods on unexported fields of other
// structs: it would print a string stored there, but only prints the address of a handle.
type Secret struct {
	handle unique.Handle[string]
}

// NewSecret returns a Secret with the given value.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{handle: unique.Make(value)}
}

// Reveal returns the value. Call it only where the value is used.
func (s Secret) Reveal() string {
	if s.IsZero() {
		return ""
	}
	return s.handle.Value()
}

// IsZero reports whether the value is empty.
func (s Secret) IsZero() bool { return s == Secret{} }

// Equal reports whether s == o. It exists for comparison libraries that look for this method.
func (s Secret) Equal(o Secret) bool { return s == o }

// String returns "[secret]", or an empty string if the value is empty.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// GoString returns the redacted form in quotes, for %#v.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// Format writes the redacted form, whatever the verb and flags.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'q' || (verb == 'v' && f.Flag('#')) {
		_, _ = io.WriteString(f, s.GoString())
		return
	}
	_, _ = io.WriteString(f, s.String())
}

// MarshalText returns the redacted form.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON returns the redacted form as a JSON string.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(s.GoString()), nil }

// LogValue returns the redacted form.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Endpoint returns the URL for use in messages and logs: without user info, query and fragment,
// which may contain credentials, and with "[secret]" in place of Secrets in its path. It is empty
// for stdio.
func (s Server) Endpoint() string {
	u, err := url.Parse(s.URL.Reveal())
	if err != nil || u.Host == "" {
		return ""
	}
	path := u.EscapedPath()
	for _, secret := range s.Secrets {
		value := secret.Reveal()
		if own, err := url.Parse(value); err == nil && own.Host != "" {
			value = own.Path // the variable contains the URL or its beginning
		}
		if value = strings.Trim(value, "/"); len(value) >= 6 { // shorter values may match by coincidence
			whole := (&url.URL{Path: value}).EscapedPath()
			path = strings.NewReplacer(value, redacted, url.PathEscape(value), redacted, whole, redacted).Replace(path)
		}
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String() + path
}

// maxCommandLine is the maximum length of a displayed command line, in runes.
const maxCommandLine = 4096

// CommandLine returns the command and its arguments as a single line, so that an operator can check
// it before the command is started. Secrets, and credentials in the arguments, are replaced by
// "[secret]"; arguments with special characters are quoted. It is empty for servers without a
// command.
func (s Server) CommandLine() string {
	words := s.CommandWords()
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, " \"'\\") || printable.Line(w, 0) != w {
			words[i] = strconv.Quote(w)
		}
	}
	return printable.Line(strings.Join(words, " "), maxCommandLine)
}

// CommandWords returns the command followed by its arguments, in which Secrets and credentials are
// replaced by "[secret]". It is empty for servers without a command.
func (s Server) CommandWords() []string {
	if s.Command == "" {
		return nil
	}
	var values []string
	for _, secret := range s.Secrets {
		if v := secret.Reveal(); len(v) >= 6 { // shorter values may match by coincidence
			values = append(values, v)
		}
	}
	// Longest first: if one value is a prefix of another, replacing the shorter value first would
	// leave the rest of the longer value visible.
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
	return words
}
