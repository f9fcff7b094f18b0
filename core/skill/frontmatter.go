package skill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// Frontmatter returns the YAML frontmatter at the start of a SKILL.md as a JSON object with sorted
// keys, as an entry contains it.
func Frontmatter(content []byte) (json.RawMessage, error) {
	line, rest, _ := bytes.Cut(bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")), []byte("\n"))
	if string(bytes.TrimRight(line, "\r \t")) != "---" {
		return nil, errors.New("the file does not begin with frontmatter")
	}
	size := -1
	for at := 0; at < len(rest) && at <= MaxFrontmatter; {
		line, _, more := bytes.Cut(rest[at:], []byte("\n"))
		if string(bytes.TrimRight(line, "\r \t")) == "---" {
			size = at
			break
		}
		if at += len(line); more {
			at++
		}
	}
	if size < 0 {
		return nil, fmt.Errorf("the frontmatter does not end within %d bytes", MaxFrontmatter)
	}
	node, err := tree.NewSource(rest[:size]).Parse(tree.YAML)
	if err != nil {
		return nil, errors.New("the frontmatter is not valid YAML")
	}
	if node.Kind != tree.Object {
		return nil, errors.New("the frontmatter is not a YAML mapping")
	}
	if repeats(node) {
		return nil, errors.New("a key of the frontmatter occurs twice") // programs differ in which one they use
	}
	raw := tree.Canonical(node)
	if len(raw) > MaxFrontmatter { // aliases
		return nil, fmt.Errorf("the frontmatter has more than %d bytes", MaxFrontmatter)
	}
	return raw, nil
}

// repeats reports whether an object in the tree has a key twice.
func repeats(n *tree.Node) bool {
	return len(n.Index()) < len(n.Members) ||
		slices.ContainsFunc(n.Members, func(m *tree.Member) bool { return repeats(m.Value) }) || slices.ContainsFunc(n.Items, repeats)
}

// compare returns the first top-level field, in the order of names, that differs between the
// frontmatter of a SKILL.md and of its entry, or "" if they are equal.
func compare(content []byte, entry json.RawMessage) (key string, err error) {
	raw, err := Frontmatter(content)
	if err != nil {
		return "", err
	}
	written, err := members(raw)
	if err != nil {
		return "", err
	}
	declared, err := members(entry)
	if err != nil {
		return "", err
	}
	for _, key := range slices.Sorted(maps.Keys(written)) {
		if v, ok := declared[key]; !ok || !same(written[key], v) {
			return key, nil
		}
		delete(declared, key)
	}
	for _, key := range slices.Sorted(maps.Keys(declared)) {
		return key, nil
	}
	return "", nil
}

func members(raw json.RawMessage) (m map[string]any, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	err = dec.Decode(&m)
	return m, err
}

// same reports whether a value that is written in YAML is a value of an entry. Parsers of YAML differ
// in what they make of dates, of numbers like 0x1f, of words like "yes" and of the last line break of
// a block: each of these readings is accepted, because all of them are the written text.
func same(written, declared any) bool {
	switch w := written.(type) {
	case map[string]any:
		d, ok := declared.(map[string]any)
		return ok && maps.EqualFunc(w, d, same)
	case []any:
		d, ok := declared.([]any)
		return ok && slices.EqualFunc(w, d, same)
	case json.Number:
		d, ok := declared.(json.Number)
		return ok && (w == d || number(w.String()) == number(d.String()))
	case string:
		switch d := declared.(type) {
		case string:
			return strings.TrimRight(w, "\n") == strings.TrimRight(d, "\n") || date(w) != "" && date(w) == date(d)
		case json.Number:
			return number(w) == number(d.String())
		case bool:
			return d && slices.Contains([]string{"yes", "on", "y"}, strings.ToLower(w)) ||
				!d && slices.Contains([]string{"no", "off", "n"}, strings.ToLower(w))
		}
		return false
	}
	return written == declared
}

// number returns a spelling that equal numbers share. Integers are compared exactly.
func number(s string) string {
	if n, err := strconv.ParseInt(s, 0, 64); err == nil {
		return strconv.FormatInt(n, 10)
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if f == float64(int64(f)) && f < 1<<53 && f > -1<<53 {
			return strconv.FormatInt(int64(f), 10)
		}
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return s
}

// date returns a spelling that equal dates share, or "" for a text that is not a date.
func date(s string) string {
	for _, layout := range []string{time.DateOnly, time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", time.DateTime} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC().Format(time.RFC3339Nano)
		}
	}
	return ""
}
