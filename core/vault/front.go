package vault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v4"

	"github.com/mcptrack/mcptrack/core/catalog"
)

const (
	maxFrontmatter = 64 << 10 // bytes; longer frontmatter is treated as text
	// maxMetadata bounds frontmatter as JSON, in bytes; longer metadata is left out. So is
	// metadata nested deeper than catalog.MaxDepth: clients reject, or crash on, responses
	// nested some hundred levels deep.
	maxMetadata = 256 << 10
)

// frontEnd returns where the frontmatter ends, 0 without frontmatter. Frontmatter must
// have an end marker: three dashes alone at the top of a note are mostly a horizontal rule.
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

// front sets tags and metadata from the frontmatter src, which includes its delimiters, and
// returns its title, "" without one. Frontmatter that is invalid is ignored.
func (f *facts) front(src []byte) string {
	src = bytes.TrimRight(src, "\r\n")
	unmarshal := toml.Unmarshal
	if src[0] == '-' {
		unmarshal = func(data []byte, to any) error { return yaml.Load(data, to) }
	}
	var values map[string]any
	if unmarshal(src[len("---"):len(src)-len("---")], &values) != nil {
		return ""
	}
	for key, value := range values {
		if k := strings.ToLower(key); k == "tags" || k == "tag" {
			f.tags = append(f.tags, frontTags(value)...)
		}
	}
	if b, err := json.Marshal(values); err == nil && len(b) <= maxMetadata && len(values) > 0 && catalog.Depth(b) <= catalog.MaxDepth {
		f.metadata = b
	}
	title, _ := values["title"].(string)
	return title
}

// frontTags returns the tags in a value of the frontmatter: a list of tags, or a string of
// tags separated by commas or spaces.
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
