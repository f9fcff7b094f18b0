package config

import (
	"fmt"
	"io"
	"log/slog"
	"unique"
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
