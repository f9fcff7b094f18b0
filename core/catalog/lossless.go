package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Lossless rewrites a JSON value so that decoding preserves differences that it would
// otherwise lose: half of a surrogate pair (a text that was cut within an emoji) and an
// invalid UTF-8 byte both decode to U+FFFD, so Lossless replaces each by U+FFFD and how it
// was spelled. Other values are returned unchanged. The result is for digests and
// comparisons, not for display.
func Lossless(raw json.RawMessage) json.RawMessage {
	if utf8.Valid(raw) && !bytes.Contains(raw, []byte(`\ud`)) && !bytes.Contains(raw, []byte(`\uD`)) {
		return raw
	}
	out := make([]byte, 0, len(raw)+len(raw)/4)
	for rest := []byte(raw); len(rest) > 0; {
		n, spelling := 1, ""
		switch {
		case rest[0] == '\\':
			n, spelling = escaped(rest)
		case rest[0] >= utf8.RuneSelf:
			var r rune
			if r, n = utf8.DecodeRune(rest); r == utf8.RuneError && n == 1 {
				spelling = fmt.Sprintf(`\ufffd\\x%02x`, rest[0])
			}
		}
		if spelling == "" {
			out = append(out, rest[:n]...)
		} else {
			out = append(out, spelling...)
		}
		rest = rest[n:]
	}
	return out
}

// escaped returns the length of the escape that s begins with, counting a surrogate pair
// as one, and the replacement for one that is half of a pair.
func escaped(s []byte) (n int, spelling string) {
	first, ok := unit(s)
	if !ok {
		return min(2, len(s)), ""
	}
	if !utf16.IsSurrogate(first) {
		return 6, ""
	}
	if second, ok := unit(s[6:]); ok && utf16.DecodeRune(first, second) != utf8.RuneError {
		return 12, ""
	}
	return 6, fmt.Sprintf(`\ufffd\\u%04x`, first)
}

// unit decodes one escape of four hexadecimal digits.
func unit(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	return rune(n), err == nil
}
