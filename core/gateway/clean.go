package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// ownMeta is the prefix of our own members of _meta, which no server may set.
const ownMeta = "mcptrack/"

// clean removes from an item what could deceive users, models or clients but is not needed:
// our own members of _meta, icons that are not images from the web or in the item itself,
// and hidden characters in texts. It returns what it removed, for users. The error says, for
// users, why the item cannot be listed.
func clean(k catalog.Kind, members []jsonMember) (cleaned []jsonMember, removed []string, err error) {
	var c cleaner
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
			m.value = c.clean(name, m.value, false)
		}
		cleaned = append(cleaned, m)
	}
	if c.changed {
		note("hidden characters")
	}
	if c.hides {
		return nil, nil, errors.New("a name or value in it has hidden characters")
	}
	return cleaned, removed, nil
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

// cleaner removes hidden characters from the texts of an item: titles, descriptions and comments,
// at any depth. All other strings are data, which reaches the server as it is: names of
// properties and arguments, values of enum, const, default and pattern. A model reads them, too,
// so that an item with hidden characters in its data must not be listed.
type cleaner struct {
	changed bool // a text was cleaned
	hides   bool // data has hidden characters
}

// clean returns the value of a member called name, "" for an element of an array, with its texts
// cleaned. data says that it is part of a value of data.
func (c *cleaner) clean(name string, raw json.RawMessage, data bool) json.RawMessage {
	if len(raw) == 0 || !mayHide(raw) {
		return raw
	}
	switch raw[0] {
	case '"':
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return raw
		}
		if data || name != "title" && name != "description" && name != "$comment" {
			c.hides = c.hides || hidesData(text)
		} else if seen := printable.Visible(text); seen != text {
			c.changed = true
			return quote(seen)
		}
	case '[':
		out, _ := each(raw, func(e json.RawMessage) (json.RawMessage, bool) {
			cleaned := c.clean("", e, data)
			return cleaned, !bytes.Equal(cleaned, e)
		})
		return out
	case '{':
		members, changed := readMembers(raw), false
		for i, m := range members {
			c.hides = c.hides || hidesData(m.name)
			of, inData := m.name, data
			switch name {
			case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
				of = "" // m.name is a name and no keyword
			default:
				switch m.name {
				case "enum", "const", "default", "examples", "example":
					inData = true
				}
			}
			members[i].value = c.clean(of, m.value, inData)
			changed = changed || !bytes.Equal(members[i].value, m.value)
		}
		if changed {
			return writeMembers(members)
		}
	}
	return raw
}

// hidesData reports whether data has hidden characters. Control characters are no way to hide
// a text, and some tools take one, such as a separator.
func hidesData(text string) bool {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
	return printable.Visible(text) != text
}

// mayHide reports whether JSON may contain hidden characters, escaped or not.
func mayHide(raw json.RawMessage) bool {
	return bytes.IndexByte(raw, '\\') >= 0 || bytes.IndexByte(raw, 0x7f) >= 0 || bytes.ContainsFunc(raw, func(r rune) bool { return r >= 0x80 })
}
