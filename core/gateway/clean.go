package gateway

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// ownMeta is the prefix of our own members of _meta, which no server may set.
const ownMeta = "mcptrack/"

// clean removes from an item what could deceive users or clients but is not needed: our
// own members of _meta, icons that are not images from the web or in the item itself,
// and hidden characters in texts for people. It returns what it removed, for users.
func clean(k catalog.Kind, members []jsonMember) (cleaned []jsonMember, removed []string) {
	note := func(what string) {
		if !slices.Contains(removed, what) {
			removed = append(removed, what)
		}
	}
	for _, m := range members {
		switch m.name {
		case "_meta":
			if meta := readMembers(m.value); slices.ContainsFunc(meta, isOwnMeta) {
				m.value = writeMembers(slices.DeleteFunc(meta, isOwnMeta))
				note("members of _meta that are reserved for mcptrack")
			}
		case "icons":
			if icons, changed := cleanIcons(m.value); changed {
				m.value = icons
				note("icons that are not images")
			}
		default:
			name := m.name
			if name == "name" && (k == catalog.Resources || k == catalog.Templates) {
				name = "title" // the name of a resource is shown to people
			}
			if value, changed := cleanTexts(name, m.value, catalog.MaxDepth); changed {
				m.value = value
				note("hidden characters")
			}
		}
		cleaned = append(cleaned, m)
	}
	return cleaned, removed
}

func isOwnMeta(m jsonMember) bool {
	return strings.HasPrefix(strings.ToLower(m.name), ownMeta)
}

// cleanIcons leaves only icons that a client can show without risk: "javascript:" and
// the like run, and "file:" reads, with the client's rights.
func cleanIcons(raw json.RawMessage) (json.RawMessage, bool) {
	var icons []json.RawMessage
	if json.Unmarshal(raw, &icons) != nil {
		return raw, false
	}
	safe := slices.DeleteFunc(slices.Clone(icons), func(icon json.RawMessage) bool {
		var src string
		_ = json.Unmarshal(fields(icon)["src"], &src)
		lower := strings.ToLower(src)
		return printable.Line(src, 0) != src || !strings.HasPrefix(lower, "https://") &&
			!strings.HasPrefix(lower, "http://") && !strings.HasPrefix(lower, "data:image/")
	})
	if len(safe) == len(icons) {
		return raw, false
	}
	return encode(safe), true
}

// cleanTexts removes hidden characters from texts for people: titles and descriptions,
// at any depth. name is the name of the member whose value is raw, "" for an element of an
// array.
func cleanTexts(name string, raw json.RawMessage, depth int) (json.RawMessage, bool) {
	if depth == 0 || len(raw) == 0 || !mayHide(raw) {
		return raw, false
	}
	switch raw[0] {
	case '"':
		if name != "title" && name != "description" {
			return raw, false
		}
		var text string
		if json.Unmarshal(raw, &text) != nil || !hides(text) {
			return raw, false
		}
		return quote(show(text)), true
	case '[':
		return each(raw, func(e json.RawMessage) (json.RawMessage, bool) { return cleanTexts("", e, depth-1) })
	case '{':
		members, changed := readMembers(raw), false
		for i, m := range members {
			if value, ok := cleanTexts(m.name, m.value, depth-1); ok {
				members[i].value, changed = value, true
			}
		}
		if changed {
			return writeMembers(members), true
		}
	}
	return raw, false
}

// mayHide reports whether JSON may contain hidden characters, escaped or not.
func mayHide(raw json.RawMessage) bool {
	return bytes.IndexByte(raw, '\\') >= 0 || bytes.IndexByte(raw, 0x7f) >= 0 || bytes.ContainsFunc(raw, func(r rune) bool { return r >= 0x80 })
}

// allowedHidden are characters that hide nothing: line ends, and the joiners of scripts
// and emoji.
var allowedHidden = strings.NewReplacer("\r\n", "\n", "\u200c", "", "\u200d", "")

// hides reports whether a text has hidden characters other than the allowed ones.
func hides(text string) bool {
	if printable.Lines(text) == text {
		return false
	}
	text = allowedHidden.Replace(text)
	return printable.Lines(text) != text
}

// show removes hidden characters from a text.
func show(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\r' && hides(string(r)) {
			return -1
		}
		return r
	}, text)
}
