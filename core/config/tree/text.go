package tree

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// least is the hint for an empty file.
const least = `the smallest config is {"servers": []}`

// checkText rejects files that are not text, whatever the format.
func (s *Source) checkText() *Error {
	if s.isUTF16() {
		return &Error{Code: CodeEncoding, Message: "file is UTF-16, not UTF-8", Hint: "save it as UTF-8"}
	}
	for i := 0; i < len(s.text); {
		r, size := utf8.DecodeRune(s.text[i:])
		if r == utf8.RuneError && size == 1 {
			return &Error{Offset: i, Code: CodeEncoding, Message: "file is not valid UTF-8 here", Hint: "save it as UTF-8"}
		}
		i += size
	}
	if i := bytes.IndexByte(s.text, 0); i >= 0 {
		return &Error{Offset: i, Code: CodeEncoding, Message: "file has a NUL character", Hint: "save it as text"}
	}
	if len(bytes.TrimSpace(s.text)) == 0 {
		return syntax(0, "file is empty", least)
	}
	for _, start := range s.lines {
		line := s.text[start:]
		for _, marker := range []string{"<<<<<<< ", ">>>>>>> "} {
			if bytes.HasPrefix(line, []byte(marker)) {
				return syntax(start, "merge conflict marker", "resolve the conflict and remove the lines with <<<<<<<, ======= and >>>>>>>")
			}
		}
	}
	return nil
}

// isUTF16 recognises UTF-16 by its byte order mark, or without one by the zero half
// of its first characters, which are ASCII in every format.
func (s *Source) isUTF16() bool {
	t := s.text
	if bytes.HasPrefix(t, []byte("\xff\xfe")) || bytes.HasPrefix(t, []byte("\xfe\xff")) {
		return true
	}
	return len(t) >= 4 && (t[0] == 0 && t[1] != 0 && t[2] == 0 && t[3] != 0 ||
		t[0] != 0 && t[1] == 0 && t[2] != 0 && t[3] == 0)
}

// space returns the error for a character that looks like a space but is none to a parser; nil
// for all other characters.
func space(offset int, r rune) *Error {
	if r < utf8.RuneSelf || !unicode.IsSpace(r) && r != '\u200b' && r != '\u2060' && r != '\ufeff' {
		return nil
	}
	if r == '\u00a0' || r == '\u202f' {
		return syntax(offset, "unexpected no-break space", "replace it by a normal space")
	}
	return syntax(offset, "unexpected invisible character", "remove it")
}
