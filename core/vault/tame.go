package vault

import "bytes"

const (
	// maxParsed is how much of a note is parsed for tags and links.
	maxParsed = 1 << 20
	// maxMarks is how many signs of inline elements one paragraph may have, and
	// maxNested how many signs of quotes and lists one line may begin with. For some
	// of them the parser takes the square of their number: a megabyte of "[](" would
	// keep it busy for hours.
	maxMarks  = 2000
	maxNested = 32
)

// tame returns a text that takes the parser no longer than others of its size: src
// itself, or a changed copy in which long paragraphs are divided at the end of a
// line, signs that still are too many are blank, and the end may be missing.
func tame(src []byte) (text []byte, changed bool) {
	whole := len(src)
	src = src[:min(len(src), maxParsed)]
	var out []byte // nil while nothing had to be changed
	kept := 0      // src up to here is in out
	marks := 0
	for at := 0; at < len(src); {
		end := len(src)
		if i := bytes.IndexByte(src[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line := src[at:end]
		n := countMarks(line)
		if len(bytes.TrimSpace(line)) == 0 {
			marks = 0
		}
		if marks > 0 && marks+n > maxMarks {
			out = append(append(out, src[kept:at]...), '\n')
			kept, marks = at, 0
		}
		if marks += n; marks > maxMarks || nested(line) > maxNested {
			out = append(append(out, src[kept:at]...), blank(line)...)
			kept = end
		}
		at = end
	}
	if out == nil {
		return src, len(src) < whole
	}
	return append(out, src[kept:]...), true
}

func isMark(c byte) bool { return bytes.IndexByte([]byte("[]()*_!<&`\\~:"), c) >= 0 }

func countMarks(line []byte) (n int) {
	for _, c := range line {
		if isMark(c) {
			n++
		}
	}
	return n
}

// nested is how many quotes and lists a line begins.
func nested(line []byte) (n int) {
	for i, c := range line {
		switch {
		case c == ' ' || c == '\t' || '0' <= c && c <= '9':
		case c == '>' || c == '-' || c == '+' || c == '*':
			n++
		case (c == '.' || c == ')') && i > 0 && '0' <= line[i-1] && line[i-1] <= '9':
			n++
		default:
			return n
		}
	}
	return n
}

// blank returns a line without its signs beyond the first ones.
func blank(line []byte) []byte {
	line = bytes.Clone(line)
	for i, n, deep := 0, 0, nested(line) > maxNested; i < len(line); i++ {
		if c := line[i]; isMark(c) || deep && (c == '>' || c == '-' || c == '+' || c == '.') {
			if n++; n > maxNested {
				line[i] = ' '
			}
		}
	}
	return line
}
