package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/internal/rawjson"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/uritemplate"
)

// Limits for one item. An item that exceeds them is not listed, because its server is faulty or
// malicious.
const (
	maxItem = 256 << 10 // maximum size of an item, in bytes
	maxName = 256       // maximum length of the name of a tool or prompt, in bytes
	maxURI  = 8 << 10   // maximum length of a URI, in bytes
)

const (
	metaPrefix = "mcptrack/"         // prefix of our members in _meta, which servers must not set
	downMember = metaPrefix + "down" // member of _meta which means that the item's server is unreachable
)

// item is an item from a server that has been validated and is ready for export.
type item struct {
	key       string
	raw       json.RawMessage // the item's JSON after validation, on one line
	at, end   int             // start and end offset in raw of the value of the key
	ui        string          // for a tool: URI of its MCP App, as specified by the server
	suspicion string          // a problem that the user should investigate; empty if none
	pattern   *regexp.Regexp  // for a template: matches the URIs that it can expand to
	digest    catalog.Digest  // digest of the JSON that the server sent
	offered   catalog.Digest  // digest of raw if the config has changed it; else zero
	rendered  *rendered       // cache of the last exported form
	skill     *listedSkill    // for a skill
}

// rendered caches the exported form of an item, because most items do not change between merges.
// Only the goroutine that merges uses it.
type rendered struct {
	key, ui string
	down    bool
	raw     json.RawMessage
}

// newItem validates an item. The error explains to users why the item cannot be listed: clients
// validate whole lists, and one invalid item would make them reject all others.
func newItem(k catalog.Kind, it catalog.Item) (item, error) {
	if k == catalog.Skills {
		return newSkill(it)
	}
	if len(it.Raw) > maxItem {
		return item{}, fmt.Errorf("it is larger than %d KiB", maxItem>>10)
	}
	if !utf8.Valid(it.Raw) {
		return item{}, errors.New("it is not UTF-8")
	}
	var line bytes.Buffer
	if err := json.Compact(&line, it.Raw); err != nil {
		return item{}, errors.New("it is not valid JSON")
	}
	out := item{key: it.Key, raw: line.Bytes(), digest: it.Digest, rendered: &rendered{}}
	if catalog.Depth(out.raw) > catalog.MaxDepth {
		return item{}, fmt.Errorf("it is nested more than %d levels deep", catalog.MaxDepth)
	}
	limit := maxURI
	if k == catalog.Tools || k == catalog.Prompts {
		limit = maxName
	}
	if len(it.Key) > limit {
		return item{}, fmt.Errorf("its %s is longer than %d bytes", k.KeyField(), limit)
	}
	if printable.Line(it.Key, 0) != it.Key {
		return item{}, fmt.Errorf("its %s contains hidden characters", k.KeyField())
	}
	if _, err := out.members(k.KeyField()); err != nil {
		return item{}, err
	}
	var m mender
	mended, problem := itemShape(k)(&m, out.raw)
	if problem != "" {
		return item{}, errors.New("it " + problem)
	}
	changed := !bytes.Equal(mended, out.raw)
	out.raw = mended
	if k == catalog.Tools {
		if err := mcpserver.CheckTool(out.raw); err != nil {
			return item{}, err
		}
		out.ui = appURI(fields(out.raw)["_meta"])
	}
	cleaned, hidden, err := clean(k, rawjson.Members(mended))
	if err != nil {
		return item{}, err
	}
	removed := append(m.left, hidden...)
	if changed || removed != nil {
		out.write(k.KeyField(), cleaned)
	}
	if removed != nil {
		out.suspicion = "it had " + strings.Join(removed, ", ") + ", which were removed"
	}
	if k == catalog.Templates {
		out.pattern, err = uritemplate.Pattern(it.Key)
	}
	return out, err
}

// members decodes the members of the item's JSON object and records the position of the value of
// key. A duplicate name is an error, because parsers differ in which of the two values they use.
func (it *item) members(key string) ([]rawjson.Member, error) {
	members := rawjson.Members(it.raw)
	if members == nil {
		return nil, errors.New("it is not a JSON object")
	}
	seen := make(map[string]bool, len(members))
	var text string
	for _, m := range members {
		if seen[m.Name] {
			return nil, errors.New("it has a duplicate member")
		}
		seen[m.Name] = true
		if m.Name == key {
			_ = json.Unmarshal(m.Value, &text) // text stays empty, which is not a valid key
			it.at, it.end = m.At, m.At+len(m.Value)
		}
	}
	if text == "" || text != it.key {
		return nil, fmt.Errorf("it has no %s", key)
	}
	return members, nil
}

// write replaces the item's JSON and records the position of the value of key in it.
func (it *item) write(key string, members []rawjson.Member) {
	it.raw = writeMembers(members)
	for _, m := range rawjson.Members(it.raw) {
		if m.Name == key {
			it.at, it.end = m.At, m.At+len(m.Value)
		}
	}
}

// presentation specifies how the config changes what clients see of the tools of a server, apart from names.
type presentation struct {
	tools   map[string]config.Tool
	bounded bool // large results are cut, so no tool promises structured content
}

func (p presentation) equal(o presentation) bool {
	return p.bounded == o.bounded && maps.Equal(p.tools, o.tools)
}

// of returns a tool as clients see it.
func (p presentation) of(it item) item {
	text := printable.Visible(p.tools[it.key].Description)
	was := rawjson.Members(it.raw)
	members := slices.DeleteFunc(slices.Clone(was), func(m rawjson.Member) bool {
		return p.bounded && m.Name == "outputSchema" || text != "" && m.Name == "description"
	})
	if text != "" {
		members = append(members, rawjson.Member{Name: "description", Value: quote(text)})
	} else if len(members) == len(was) {
		return it
	}
	it.write(catalog.Tools.KeyField(), members)
	it.offered, _ = catalog.Fingerprint(it.raw) // valid JSON
	return it
}

// as returns the exported form of the item: with its exported key, with the exported URI of its MCP
// App (ui; empty if it has none), and marked if its server is down.
func (it item) as(key, ui string, down bool) json.RawMessage {
	if last := it.rendered; last.raw != nil && last.key == key && last.ui == ui && last.down == down {
		return last.raw
	}
	raw := it.raw
	if key != it.key && it.skill != nil {
		raw = encode(renamed(it.skill.Entry, key))
	} else if key != it.key {
		raw = slices.Concat(raw[:it.at], quote(key), raw[it.end:])
	}
	if ui != it.ui && ui != "" {
		raw = withAppURI(raw, ui)
	}
	if down {
		raw = markDown(raw)
	}
	*it.rendered = rendered{key, ui, down, raw}
	return raw
}

// markDown adds downMember to _meta, which must be an object if present. The order of all other
// members is preserved.
func markDown(raw json.RawMessage) json.RawMessage {
	mark := rawjson.Member{Name: downMember, Value: json.RawMessage("true")}
	members := rawjson.Members(raw)
	for i, m := range members {
		if m.Name == "_meta" {
			members[i].Value = writeMembers(append(rawjson.Members(m.Value), mark))
			return writeMembers(members)
		}
	}
	return writeMembers(append(members, rawjson.Member{Name: "_meta", Value: writeMembers([]rawjson.Member{mark})}))
}

// A tool of the extension MCP Apps can refer to a resource that hosts display with its results, in
// _meta.ui.resourceUri or, in the older form, _meta["ui/resourceUri"]. If that resource is exported
// under another URI, the URI in the tool is replaced accordingly.

// appURI returns the URI of a tool's MCP App, or "" if it has none.
func appURI(meta json.RawMessage) (uri string) {
	m := fields(meta)
	if json.Unmarshal(fields(m["ui"])["resourceUri"], &uri) != nil || uri == "" {
		_ = json.Unmarshal(m["ui/resourceUri"], &uri) // stays empty if it is not a string
	}
	return uri
}

// withAppURI replaces the URI of a tool's MCP App.
func withAppURI(tool json.RawMessage, uri string) json.RawMessage {
	replace := func(json.RawMessage) (json.RawMessage, bool) { return quote(uri), true }
	out, _ := within(tool, "_meta", func(meta json.RawMessage) (json.RawMessage, bool) {
		meta, nested := within(meta, "ui", func(ui json.RawMessage) (json.RawMessage, bool) { return within(ui, "resourceUri", replace) })
		meta, flat := within(meta, "ui/resourceUri", replace)
		return meta, nested || flat
	})
	return out
}

// clean removes everything from an item that could deceive users, models or clients: members of _meta
// that are reserved or contain hidden characters, icons that are neither inline nor web images or contain
// hidden characters, and hidden characters in texts.
// It returns user-readable descriptions of the parts that it removed. The error explains to users
// why the item cannot be listed.
func clean(k catalog.Kind, members []rawjson.Member) (cleaned []rawjson.Member, removed []string, err error) {
	var c cleaner
	note := func(what string) {
		if !slices.Contains(removed, what) {
			removed = append(removed, what)
		}
	}
	for _, m := range members {
		switch m.Name {
		case "_meta":
			meta := rawjson.Members(m.Value)
			drop := func(what string, is func(rawjson.Member) bool) {
				if slices.ContainsFunc(meta, is) {
					meta = slices.DeleteFunc(meta, is)
					m.Value = writeMembers(meta)
					note(what)
				}
			}
			drop("members of _meta that are reserved for mcptrack", isReservedMeta)
			drop("members of _meta with hidden characters", func(m rawjson.Member) bool { return hidesData(m.Name) || hides(m.Value) })
		case "icons":
			if icons, changed := cleanIcons(m.Value); changed {
				m.Value = icons
				note("icons that are not images")
			}
		default:
			name := m.Name
			if name == "name" && (k == catalog.Resources || k == catalog.Templates) {
				name = "title" // the name of a resource is displayed to users
			}
			m.Value = c.clean(name, m.Value, false)
		}
		cleaned = append(cleaned, m)
	}
	if c.changed {
		note("hidden characters")
	}
	if c.hides {
		return nil, nil, errors.New("a name or value in it contains hidden characters")
	}
	return cleaned, removed, nil
}

func isReservedMeta(m rawjson.Member) bool {
	return strings.HasPrefix(strings.ToLower(m.Name), metaPrefix)
}

// cleanIcons keeps only icons that a client can display safely: "javascript:" and similar schemes
// run code, and "file:" reads files, with the client's permissions.
func cleanIcons(raw json.RawMessage) (json.RawMessage, bool) {
	var icons []json.RawMessage
	if json.Unmarshal(raw, &icons) != nil {
		return raw, false
	}
	safe := slices.DeleteFunc(slices.Clone(icons), func(icon json.RawMessage) bool {
		var src string
		_ = json.Unmarshal(fields(icon)["src"], &src)
		lower := strings.ToLower(src)
		return hides(icon) || printable.Line(src, 0) != src || !strings.HasPrefix(lower, "https://") &&
			!strings.HasPrefix(lower, "http://") && !strings.HasPrefix(lower, "data:image/")
	})
	if len(safe) == len(icons) {
		return raw, false
	}
	return encode(safe), true
}

// cleaner removes hidden characters from the texts of an item: titles, descriptions and comments,
// at any depth. All other strings are data that the server must receive unchanged: names of
// properties and arguments, and values of enum, const, default and pattern. Models read data, too,
// so an item with hidden characters in its data must not be listed.
type cleaner struct {
	changed bool // at least one text was modified
	hides   bool // data contains hidden characters
}

// clean returns the value of the member called name with its texts cleaned; name is empty for an
// element of an array. data means that the value is part of data.
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
		members, changed := rawjson.Members(raw), false
		for i, m := range members {
			c.hides = c.hides || hidesData(m.Name)
			of, inData := m.Name, data
			switch name {
			case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
				of = "" // m.Name is a property name, not a keyword
			default:
				switch m.Name {
				case "enum", "const", "default", "examples", "example":
					inData = true
				}
			}
			members[i].Value = c.clean(of, m.Value, inData)
			changed = changed || !bytes.Equal(members[i].Value, m.Value)
		}
		if changed {
			return writeMembers(members)
		}
	}
	return raw
}

// hides reports whether a value contains hidden characters anywhere.
func hides(raw json.RawMessage) bool {
	var c cleaner
	c.clean("", raw, true)
	return c.hides
}

// hidesData reports whether data contains hidden characters. Control characters are allowed: they
// cannot hide text, and some tools accept one, for example as a separator.
func hidesData(text string) bool {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
	return printable.Visible(text) != text
}

// mayHide reports whether JSON may contain hidden characters, whether escaped or not.
func mayHide(raw json.RawMessage) bool {
	return bytes.IndexByte(raw, '\\') >= 0 || bytes.IndexByte(raw, 0x7f) >= 0 || bytes.ContainsFunc(raw, func(r rune) bool { return r >= 0x80 })
}
