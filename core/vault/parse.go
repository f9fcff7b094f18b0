package vault

import (
	"bytes"
	"encoding/json"
	"net/url"
	"path"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"go.abhg.dev/goldmark/wikilink"
)

const (
	maxTags      = 500  // tags of one note
	maxLinks     = 5000 // links of one note
	maxTarget    = 1024 // bytes of a link's target
	maxTitle     = 200  // runes
	maxPreview   = 100  // runes
	maxPreviewed = 4096 // bytes of text that a preview is taken from
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
type markdown struct{ goldmark.Markdown }

func newMarkdown() *markdown {
	tags := goldmark.WithParserOptions(parser.WithInlineParsers(util.Prioritized(tagParser{}, 999)))
	return &markdown{goldmark.New(tags, goldmark.WithExtensions(&wikilink.Extender{}))}
}

// parse extracts facts from the text of the note at path p. If the parser panics,
// the note has a title only.
func (m *markdown) parse(p string, src []byte) (f facts) {
	base := strings.TrimSuffix(path.Base(p), path.Ext(p))
	defer func() {
		if recover() != nil { // goldmark panicked on hostile input
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
	doc := m.Parser().Parse(text.NewReader(parsed))
	heading := f.walk(doc, parsed, path.Dir(p))
	f.title = titleOf(title, heading, base)
	f.preview = shorten(string(src[:min(len(src), maxPreviewed)]), maxPreview)
	f.tags, f.links = unique(f.tags, maxTags), unique(f.links, maxLinks)
	return f
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
