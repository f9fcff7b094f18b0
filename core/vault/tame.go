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
	// maxLines bounds the lines of a paragraph times its signs: some signs look for
	// their end line by line.
	maxLines = 8_000
	// maxIndent is how many columns of white space may be among the signs that a line
	// begins with: lists nest over many lines, by two columns each.
	maxIndent = 2 * maxNested
	// maxEmpty is how many empty lines may follow each other. The parser goes through
	// all lists and quotes that are open for each of them, and it is one byte.
	maxEmpty = 2
)

// tame returns a text that takes the parser no longer than others of its size: src
// itself, or a changed copy in which long paragraphs are divided at the end of a
// line, signs and white space that still are too many are gone, empty lines in a row
// are few, and the end may be missing. Only the parser sees it.
func tame(src []byte) (text []byte, changed bool) {
	whole := len(src)
	src = src[:min(len(src), maxParsed)]
	var out []byte       // nil while nothing had to be changed
	kept := 0            // src up to here is in out
	marks, lines := 0, 0 // of the paragraph, as far as it goes
	var empty run
	for at := 0; at < len(src); {
		end := len(src)
		if i := bytes.IndexByte(src[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line := src[at:end]
		n := countMarks(line)
		if len(bytes.TrimSpace(line)) == 0 {
			marks, lines = 0, 0
		}
		if marks > 0 && (marks+n > maxMarks || (marks+n)*(lines+1) > maxLines) {
			out = append(append(out, src[kept:at]...), '\n')
			kept, marks, lines = at, 0, 0
		}
		marks, lines = marks+n, lines+1
		signs, columns, _ := beginning(line)
		switch {
		case empty.add(line) > maxEmpty:
			out, kept = append(out, src[kept:at]...), end
		case marks > maxMarks || signs > maxNested || columns > maxIndent:
			out = append(append(out, src[kept:at]...), flat(blank(line))...)
			kept = end
		}
		at = end
	}
	if kept == 0 {
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

// beginning is how many quotes and lists a line begins, how many columns of white
// space are among their signs, and where that ends.
func beginning(line []byte) (signs, columns, end int) {
	for i, c := range line {
		switch {
		case c == ' ' || c == '\t':
			columns += width(c)
		case '0' <= c && c <= '9':
		case c == '>' || c == '-' || c == '+' || c == '*':
			signs++
		case (c == '.' || c == ')') && i > 0 && '0' <= line[i-1] && line[i-1] <= '9':
			signs++
		default:
			return signs, columns, i
		}
	}
	return signs, columns, len(line)
}

// width is the most columns that white space takes, 0 of what is none.
func width(c byte) int {
	switch c {
	case ' ':
		return 1
	case '\t':
		return 4
	}
	return 0
}

// blank returns a line without its signs beyond the first ones.
func blank(line []byte) []byte {
	line = bytes.Clone(line)
	signs, _, _ := beginning(line)
	for i, n, deep := 0, 0, signs > maxNested; i < len(line); i++ {
		if c := line[i]; isMark(c) || deep && (c == '>' || c == '-' || c == '+' || c == '.') {
			if n++; n > maxNested {
				line[i] = ' '
			}
		}
	}
	return line
}

// flat returns a line without the white space that is too much among the signs that
// it begins with. Of each stretch a space is left: a list needs one.
func flat(line []byte) []byte {
	_, _, end := beginning(line)
	kept := make([]byte, 0, len(line))
	columns := 0
	for i, c := range line[:end] {
		if columns += width(c); columns > maxIndent && width(c) > 0 {
			if i > 0 && width(line[i-1]) > 0 {
				continue
			}
			c = ' '
		}
		kept = append(kept, c)
	}
	return append(kept, line[end:]...)
}

// run counts the empty lines in a row: those of nothing, or of as many quotes.
type run struct{ lines, quotes int }

// add counts a line and returns how long the run is with it, 0 if it ends.
func (r *run) add(line []byte) int {
	quotes := bytes.Count(line, []byte(">"))
	if len(bytes.Trim(line, " \t\r\n\v\f>")) > 0 {
		*r = run{}
		return 0
	}
	if quotes != r.quotes {
		*r = run{quotes: quotes}
	}
	r.lines++
	return r.lines
}
