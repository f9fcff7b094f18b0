package vault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"go.abhg.dev/goldmark/frontmatter"
	"go.abhg.dev/goldmark/wikilink"

	"github.com/mcptrack/mcptrack/core/catalog"
)

const (
	maxFrontmatter = 64 << 10 // bytes; longer frontmatter is treated as text
	maxTags        = 500      // of one note
	maxLinks       = 5000     // of one note
	maxTarget      = 1024     // bytes of a link
	maxTitle       = 200      // runes
	maxPreview     = 100      // runes
	maxPreviewed   = 4096     // bytes of text that a preview is taken from
	maxMetadata    = 256 << 10
	// maxMetadataDepth is the largest nesting depth of metadata: clients reject, or
	// crash on, responses nested some hundred levels deep.
	maxMetadataDepth = 64
)

// facts is what the index extracts from the text of a note.
type facts struct {
	title, preview string
	tags           []string // sorted, each once
	links          []string // sorted, each once; see linkTo
	// metadata is the frontmatter as JSON, nil if it is missing, invalid or exceeds
	// the limits. Only read_note uses it; the index drops it.
	metadata json.RawMessage
}

// markdown parses notes. It is safe for concurrent use.
type markdown struct{ bare, withFront goldmark.Markdown }

func newMarkdown() *markdown {
	tags := goldmark.WithParserOptions(parser.WithInlineParsers(util.Prioritized(tagParser{}, 999)))
	return &markdown{
		bare:      goldmark.New(tags, goldmark.WithExtensions(&wikilink.Extender{})),
		withFront: goldmark.New(tags, goldmark.WithExtensions(&wikilink.Extender{}, &frontmatter.Extender{})),
	}
}

// parse extracts facts from the text of the note at path p. If the parser panics,
// the note has a title only.
func (m *markdown) parse(p string, src []byte) (f facts) {
	base := strings.TrimSuffix(path.Base(p), path.Ext(p))
	defer func() {
		if recover() != nil { // goldmark on hostile input
			f = facts{title: titleOf(base)}
		}
	}()
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	body := frontEnd(src)
	md := m.bare
	if body > 0 {
		md = m.withFront
	}
	ctx := parser.NewContext()
	parsed := src
	if limited, changed := limitMarkup(src[body:]); changed {
		parsed = slices.Concat(src[:body], limited)
	}
	doc := md.Parser().Parse(text.NewReader(parsed), parser.WithContext(ctx))

	var title string
	if data := frontmatter.Get(ctx); data != nil {
		title = f.front(data)
	}
	heading := f.walk(doc, parsed, path.Dir(p))
	f.title = titleOf(title, heading, base)
	f.preview = shorten(string(src[body:min(len(src), body+maxPreviewed)]), maxPreview)
	f.tags, f.links = unique(f.tags, maxTags), unique(f.links, maxLinks)
	return f
}

// frontEnd returns where the frontmatter ends, 0 without frontmatter. It must be
// closed: the parser would take all text after an unclosed delimiter for frontmatter,
// while three dashes at the top of a note are more often a horizontal rule.
func frontEnd(src []byte) int {
	line, rest, ok := bytes.Cut(src, []byte("\n"))
	line = bytes.TrimRight(line, "\r")
	if !ok || string(line) != "---" && string(line) != "+++" {
		return 0
	}
	for at := len(src) - len(rest); at < len(src) && at < maxFrontmatter; {
		end := bytes.IndexByte(src[at:], '\n')
		if end < 0 {
			end = len(src) - at - 1
		}
		next := at + end + 1
		if bytes.Equal(bytes.TrimRight(src[at:next], "\r\n"), line) {
			return next
		}
		at = next
	}
	return 0
}

// front sets tags and metadata from the frontmatter and returns its title.
func (f *facts) front(data *frontmatter.Data) string {
	var values map[string]any
	if data.Decode(&values) != nil {
		return ""
	}
	for key, value := range values {
		if k := strings.ToLower(key); k == "tags" || k == "tag" {
			f.tags = append(f.tags, frontTags(value)...)
		}
	}
	if b, err := json.Marshal(values); err == nil && len(b) <= maxMetadata && len(values) > 0 && catalog.Depth(b) <= maxMetadataDepth {
		f.metadata = b
	}
	title, _ := values["title"].(string)
	return title
}

// frontTags reads a list, or a string of tags separated by commas or spaces.
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

// walk collects tags and links and returns the text of the first level-1 heading.
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
		case *tagNode:
			f.tags = append(f.tags, n.tag)
		case *wikilink.Node:
			if to := strings.TrimSpace(string(n.Target)); to != "" && len(to) <= maxTarget && printableName(to) {
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
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// linkTo returns the note that an ordinary link leads to, as "/" and its path, or "".
// Wikilinks have no leading slash: their targets are names for linker.resolve.
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
