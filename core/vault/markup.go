package vault

import "bytes"

const (
	// maxParsed is how many bytes of a note are parsed for tags and links.
	maxParsed = 1 << 20
	// maxMarks is how many inline markers one paragraph may have, and maxNested how many
	// quote and list markers one line may begin with. For some markers the parser takes
	// time quadratic in their number: a megabyte of "[](" would take hours.
	maxMarks  = 2000
	maxNested = 32
	// maxLines limits the lines of a paragraph times its markers: the parser searches
	// for the end of some markers line by line.
	maxLines = 8_000
	// maxIndent is how many columns of white space may be between the markers that a
	// line begins with: lists nest over many lines, by two columns each.
	maxIndent = 2 * maxNested
	// maxEmpty is how many empty lines may follow each other. For each such line, a single
	// byte, the parser visits every open list and quote.
	maxEmpty = 2
)

// limitMarkup returns a text that the parser handles in linear time: src itself, or
// a changed copy in which long paragraphs are split at a line end, excess markers,
// white space and empty lines are removed, and text beyond maxParsed is cut off.
// Only the parser sees the copy.
func limitMarkup(src []byte) (text []byte, changed bool) {
	whole := len(src)
	src = src[:min(len(src), maxParsed)]
	var out []byte       // nil while nothing was changed
	copied := 0          // src up to here is in out
	marks, lines := 0, 0 // inline markers and lines of the paragraph so far
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
			out = append(append(out, src[copied:at]...), '\n')
			copied, marks, lines = at, 0, 0
		}
		marks, lines = marks+n, lines+1
		signs, columns, _ := beginning(line)
		switch {
		case empty.add(line) > maxEmpty:
			out, copied = append(out, src[copied:at]...), end
		case marks > maxMarks || signs > maxNested || columns > maxIndent:
			out = append(append(out, src[copied:at]...), flat(blank(line))...)
			copied = end
		}
		at = end
	}
	if copied == 0 {
		return src, len(src) < whole
	}
	return append(out, src[copied:]...), true
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

// beginning returns how many quote and list markers a line begins with, how many
// columns of white space are between them, and where they end.
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

// width is the largest number of columns that a white space character takes, 0 for
// any other character.
func width(c byte) int {
	switch c {
	case ' ':
		return 1
	case '\t':
		return 4
	}
	return 0
}

// blank replaces all markers of a line but the first maxNested by spaces.
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

// flat removes excess white space between the markers that a line begins with. One
// space of each run remains, because list markers need one.
func flat(line []byte) []byte {
	_, _, end := beginning(line)
	out := make([]byte, 0, len(line))
	columns := 0
	for i, c := range line[:end] {
		if columns += width(c); columns > maxIndent && width(c) > 0 {
			if i > 0 && width(line[i-1]) > 0 {
				continue
			}
			c = ' '
		}
		out = append(out, c)
	}
	return append(out, line[end:]...)
}

// run counts consecutive empty lines, or lines with an equal number of quote markers
// and nothing else.
type run struct{ lines, quotes int }

// add counts a line and returns the length of the run, 0 if the line ends it.
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
