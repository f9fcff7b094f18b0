package vault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"go.yaml.in/yaml/v4"

	"github.com/mcptrack/mcptrack/core/catalog"
)

const (
	maxTags      = 500  // maximum number of tags per note
	maxLinks     = 5000 // maximum number of links per note
	maxTarget    = 1024 // maximum length of a link target, in bytes
	maxTitle     = 200  // maximum length of a title, in runes
	maxPreview   = 100  // maximum length of a preview, in runes
	maxPreviewed = 4096 // how many bytes of text are considered for a preview
)

// facts holds everything that the index extracts from the text of a note.
type facts struct {
	title, preview string
	tags           []string // sorted, without duplicates
	links          []string // sorted, without duplicates; see linkTo
	frontmatter    map[string]any
}

// markdown parses notes. It is safe for concurrent use.
type markdown struct{ parser.Parser }

func newMarkdown() *markdown {
	return &markdown{parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithInlineParsers(parser.DefaultInlineParsers()...),
		parser.WithInlineParsers(util.Prioritized(wikilinkParser{}, 199), util.Prioritized(tagParser{}, 999)), // links in single brackets have 200
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...))}
}

// parse extracts facts from the text of the note at path p. If the parser panics, the facts contain
// only a title.
func (m *markdown) parse(p string, src []byte) (f facts) {
	base := strings.TrimSuffix(path.Base(p), path.Ext(p))
	defer func() {
		if recover() != nil { // goldmark panicked on malicious input
			f = facts{title: titleOf(base)}
		}
	}()
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	var title string
	if end := frontEnd(src); end > 0 {
		title = f.front(src[:end])
		src = src[end:]
	}
	parsed, _ := limitMarkup(src)
	doc := m.Parse(text.NewReader(parsed))
	heading := f.walk(doc, parsed, path.Dir(p))
	f.title = titleOf(title, heading, base)
	f.preview = shorten(string(src[:min(len(src), maxPreviewed)]), maxPreview)
	f.tags, f.links = unique(f.tags, maxTags), unique(f.links, maxLinks)
	return f
}

// walk collects the tags and links in a document and returns the text of its first level-1 heading.
func (f *facts) walk(doc ast.Node, src []byte, dir string) (heading string) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 1 && heading == "" {
				heading = plain(n, src)
			}
		case *mention:
			if n.tag != "" {
				f.tags = append(f.tags, n.tag)
			} else if to := n.target; to != "" && len(to) <= maxTarget && printableName(to) {
				f.links = append(f.links, to)
			}
		case *ast.Link:
			if to := linkTo(string(n.Destination), dir); to != "" {
				f.links = append(f.links, to)
			}
		}
		return ast.WalkContinue, nil
	})
	return heading
}

// plain returns the text of a node and its descendants.
func plain(n ast.Node, src []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(src))
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		case *mention:
			if entering {
				b.Write(n.text.Value(src))
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// linkTo returns the target of an ordinary Markdown link as "/" followed by the path of a note, or
// "" if the link does not refer to a note. Targets of wikilinks have no leading slash, because they
// are names that linker.resolve looks up.
func linkTo(destination, dir string) string {
	destination, _, _ = strings.Cut(destination, "#")
	to, err := url.PathUnescape(destination)
	if err != nil || strings.Contains(to, ":") || !isNote(to) || len(to) > maxTarget {
		return ""
	}
	if !strings.HasPrefix(to, "/") {
		to = path.Join("/", dir, to)
	}
	if to = path.Clean(to); checkPath(to[1:]) != nil {
		return ""
	}
	return to
}

const (
	maxFrontmatter = 64 << 10 // in bytes; longer frontmatter is treated as text
	// maxMetadata is the maximum size of frontmatter as JSON, in bytes; larger metadata is omitted.
	// Metadata nested more deeply than catalog.MaxDepth is omitted, too, because clients reject, or
	// crash on, responses that are nested hundreds of levels deep.
	maxMetadata = 256 << 10
)

// frontEnd returns the offset at which the frontmatter ends, or 0 if there is none. Frontmatter
// must have an end marker: three dashes at the top of a note without one are usually a horizontal
// rule.
func frontEnd(src []byte) int {
	const blank = "\r\n \t" // may follow a delimiter
	line, rest, ok := bytes.Cut(src, []byte("\n"))
	line = bytes.TrimRight(line, blank)
	if !ok || string(line) != "---" && string(line) != "+++" {
		return 0
	}
	for at := len(src) - len(rest); at < len(src) && at < maxFrontmatter; {
		end := bytes.IndexByte(src[at:], '\n')
		if end < 0 {
			end = len(src) - at - 1
		}
		next := at + end + 1
		if bytes.Equal(bytes.TrimRight(src[at:next], blank), line) {
			return next
		}
		at = next
	}
	return 0
}

// metadata returns the frontmatter as JSON, or nil if it is missing, invalid or exceeds the limits.
func (f *facts) metadata() json.RawMessage {
	b, err := json.Marshal(f.frontmatter)
	if err != nil || len(b) > maxMetadata || len(f.frontmatter) == 0 || catalog.Depth(b) > catalog.MaxDepth {
		return nil
	}
	return b
}

// front sets tags and frontmatter from the frontmatter src, which includes its delimiters. It returns
// the title, or "" if there is none. Invalid frontmatter is ignored.
func (f *facts) front(src []byte) string {
	src = bytes.TrimRight(src, "\r\n \t")
	unmarshal := toml.Unmarshal
	if src[0] == '-' {
		unmarshal = func(data []byte, to any) error { return yaml.Load(data, to) }
	}
	var values map[string]any
	if unmarshal(src[len("---"):len(src)-len("---")], &values) != nil {
		return ""
	}
	f.frontmatter = values
	for key, value := range values {
		if k := strings.ToLower(key); k == "tags" || k == "tag" {
			f.tags = append(f.tags, frontTags(value)...)
		}
	}
	switch title := values["title"].(type) {
	case string:
		return title
	case int, int64, uint64, float64, bool: // title: 2024
		return fmt.Sprint(title)
	case time.Time: // title: 2024-05-06
		return title.Format(time.DateOnly)
	}
	return ""
}

// frontTags returns the tags in a frontmatter value: a list of tags, or a string of tags separated
// by commas or spaces.
func frontTags(value any) (tags []string) {
	switch v := value.(type) {
	case string:
		for tag := range strings.FieldsFuncSeq(v, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
			tags = appendTag(tags, tag)
		}
	case []any:
		for _, item := range v {
			switch item.(type) {
			case []any, map[string]any, map[any]any: // not a tag, and possibly deeply nested
			default:
				tags = appendTag(tags, strings.TrimSpace(fmt.Sprint(item)))
			}
		}
	}
	return tags
}

func appendTag(tags []string, text string) []string {
	if tag, ok := cleanTag(text); ok {
		return append(tags, tag)
	}
	return tags
}

const (
	// maxParsed is how many bytes of a note are parsed for tags and links at most.
	maxParsed = 1 << 20
	// maxMarks is the maximum number of inline markers in one paragraph. maxNested is the maximum
	// number of quote and list markers at the start of one line. For some markers, the parser needs
	// time quadratic in their number: a megabyte of "[](" would take hours.
	maxMarks  = 2000
	maxNested = 32
	// maxLines limits the number of lines in a paragraph multiplied by the number of its markers,
	// because the parser searches for the end of some markers line by line.
	maxLines = 8_000
	// maxIndent is the maximum number of columns of white space between the markers at the start of
	// a line: lists that are nested over many lines are indented by two columns per level.
	maxIndent = 2 * maxNested
	// maxEmpty is the maximum number of consecutive empty lines. For each such line, which is only
	// one byte long, the parser visits every open list and quote.
	maxEmpty = 2
)

// limitMarkup returns a text that the parser can handle in linear time. That is src itself or a
// modified copy, in which long paragraphs are split at a line end, excess markers, white space and
// empty lines are removed, and text beyond maxParsed is truncated. Only the parser sees the copy.
func limitMarkup(src []byte) (text []byte, changed bool) {
	whole := len(src)
	src = src[:min(len(src), maxParsed)]
	var out []byte       // nil until something is changed
	copied := 0          // src[:copied] has been copied to out
	marks, lines := 0, 0 // inline markers and lines in the current paragraph so far
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

const marks = "[]()*_!<&`\\~:"

func isMark(c byte) bool { return strings.IndexByte(marks, c) >= 0 }

func countMarks(line []byte) (n int) {
	for i := range len(marks) {
		n += bytes.Count(line, []byte(marks[i:i+1]))
	}
	return n
}

// beginning examines the start of a line. It returns the number of quote and list markers, the
// number of columns of white space between them, and the offset at which they end.
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

// width returns the maximum number of columns that a white space character occupies, or 0 for any
// other character.
func width(c byte) int {
	switch c {
	case ' ':
		return 1
	case '\t':
		return 4
	}
	return 0
}

// blank replaces all markers at the start of a line except the first maxNested with spaces.
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

// flat removes excess white space between the markers at the start of a line. It keeps one space of
// each run, because list markers need it.
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

// run counts consecutive empty lines. Lines that contain only the same number of quote markers are
// empty, too.
type run struct{ lines, quotes int }

// add counts a line. It returns the length of the current run, or 0 if the line ends the run.
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

// maxTagBytes is the maximum length of a tag in bytes.
const maxTagBytes = 200

// mention represents a tag or a wikilink in the text of a note.
type mention struct {
	ast.BaseInline
	tag, target string       // one of them is empty, or both are: a link to a part of the same note
	text        text.Segment // what a reader sees
}

// Kind implements ast.Node; notes are never rendered.
func (*mention) Kind() ast.NodeKind { return ast.KindText }

// Dump implements ast.Node.
func (n *mention) Dump(src []byte, level int) { ast.DumpHelper(n, src, level, nil, nil) }

// tagParser is an inline parser for tags. goldmark does not call it inside code and links, or after
// a backslash.
type tagParser struct{}

// Trigger implements parser.InlineParser.
func (tagParser) Trigger() []byte { return []byte{'#'} }

// Parse implements parser.InlineParser.
func (tagParser) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	if unicode.IsLetter(before) || unicode.IsDigit(before) || strings.ContainsRune("_-/&#", before) {
		return nil // the '#' is inside a word or a URL
	}
	line, segment := block.PeekLine()
	end := 1
	for end < len(line) {
		r, size := utf8.DecodeRune(line[end:])
		if !tagRune(r) {
			break
		}
		end += size
	}
	tag, ok := cleanTag(string(line[1:end]))
	if !ok {
		return nil
	}
	block.Advance(end)
	return &mention{tag: tag, text: segment.WithStop(segment.Start + end)}
}

// wikilinkParser is an inline parser for [[target]], [[target|text]] and [[target#part]], and for the same after an
// exclamation mark.
type wikilinkParser struct{}

// Trigger implements parser.InlineParser.
func (wikilinkParser) Trigger() []byte { return []byte("![") }

// Parse implements parser.InlineParser.
func (wikilinkParser) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	line, segment := block.PeekLine()
	inside, ok := bytes.CutPrefix(bytes.TrimPrefix(line, []byte("!")), []byte("[["))
	size := bytes.Index(inside, []byte("]]"))
	if !ok || size < 0 {
		return nil
	}
	end := len(line) - len(inside) + size
	target, shown, both := bytes.Cut(inside[:size], []byte("|"))
	if !both {
		shown = target
	}
	if len(target) == 0 || len(shown) == 0 {
		return nil
	}
	if part := bytes.LastIndexByte(target, '#'); part >= 0 {
		target = target[:part]
	}
	block.Advance(end + len("]]"))
	seen := text.NewSegment(segment.Start+end-len(shown), segment.Start+end)
	return &mention{target: string(bytes.TrimSpace(target)), text: seen}
}

// tagRune reports whether a character is allowed in a tag, as in Obsidian: letters,
// digits, emoji, "_", "-" and "/", but no other punctuation and no white space.
func tagRune(r rune) bool {
	switch {
	case r == '_' || r == '-' || r == '/' || r == '\u200d': // U+200D joins emoji
		return true
	case r < utf8.RuneSelf:
		return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	return r != utf8.RuneError && unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.So, unicode.Sk)
}

// cleanTag removes a leading "#" and surrounding slashes. ok is false if the tag contains an
// invalid character or an empty level, or consists of digits only.
func cleanTag(tag string) (string, bool) {
	tag = strings.Trim(strings.TrimPrefix(tag, "#"), "/")
	ok := tag != "" && len(tag) <= maxTagBytes && !strings.Contains(tag, "//") &&
		!strings.ContainsFunc(tag, func(r rune) bool { return !tagRune(r) }) &&
		strings.ContainsFunc(tag, func(r rune) bool { return !unicode.IsDigit(r) && r != '/' })
	return tag, ok
}
