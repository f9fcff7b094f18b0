package edit

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// tomlInline returns the offsets of an object written as {…}, and reports whether there is one.
func (d *doc) tomlInline(path []string) (from, to int, ok bool) {
	at, ok := d.tomlValue(path)
	if !ok || d.Text()[at] != '{' {
		return 0, 0, false
	}
	return at, d.EndOfTOML(at), true
}

// tomlValue returns the offset of the value that is written after the last name of a path, or as an item of the
// list there, and reports whether there is one.
func (d *doc) tomlValue(path []string) (at int, ok bool) {
	parent, last, t := d.at(path[:len(path)-1]), path[len(path)-1], d.Text()
	if parent != nil && parent.Kind == tree.List {
		return d.tomlItem(path[:len(path)-1], last)
	}
	if parent == nil || parent.Get(last) == nil {
		return 0, false
	}
	at = parent.Get(last).Offset
	// Skip the key, which may be quoted, and the equals sign.
	for at < len(t) && t[at] != '=' {
		if t[at] == '\n' || t[at] == ']' || t[at] == '.' {
			return 0, false
		}
		if c := t[at]; c == '"' || c == '\'' {
			for at++; at < len(t) && t[at] != c; at++ {
				if c == '"' && t[at] == '\\' {
					at++
				}
			}
		}
		at++
	}
	for at++; at < len(t) && (t[at] == ' ' || t[at] == '\t'); at++ {
	}
	return at, at < len(t)
}

// tomlItem returns the offset of an item of a list written as […], and reports whether there is one.
func (d *doc) tomlItem(list []string, index string) (at int, ok bool) {
	at, ok = d.tomlValue(list)
	n, err := strconv.Atoi(index)
	if t := d.Text(); ok && err == nil && t[at] == '[' {
		for at++; at < len(t) && t[at] != ']'; at++ {
			switch c := t[at]; {
			case c == '#':
				at += bytes.IndexByte(t[at:], '\n')
			case c == ',' || c == ' ' || c == '\t' || c == '\r' || c == '\n':
			case n == 0:
				return at, true
			default:
				n--
				at = d.EndOfTOML(at) - 1
			}
		}
	}
	return 0, false
}

// toml returns the change for a table in TOML, whose statements must be adjacent.
func (d *doc) toml(path []string, set []Member, keep func(string) bool) (c change, ok bool) {
	if from, to, ok := d.tomlInline(path); ok {
		members := make([]string, 0, len(set))
		for _, m := range set {
			members = append(members, tomlKey(m.Name)+" = "+inline(m.Value, " = ", tomlKey, " "))
		}
		for _, m := range d.at(path).Members {
			if keep(m.Name) {
				members = append(members, string(d.Text()[m.Offset:d.EndOfTOML(m.Offset)]))
			}
		}
		return change{from, to, []byte("{ " + strings.Join(members, ", ") + " }")}, true
	}
	block, ok := d.block(path)
	if !ok {
		return c, false
	}
	var lines, own, below []string // own and below are statements to keep: of the table, and of tables below it
	header, prefix, inBelow := "", "", false
	for _, s := range block {
		text := string(d.Text()[s.From:s.To])
		switch name := append(slices.Clone(s.Path), "")[len(path)]; {
		case s.Header && len(s.Path) == len(path):
			header, inBelow = text, false
		case s.Header:
			inBelow = true
			if keep(name) {
				below = append(below, "", text)
			}
		case !keep(name):
			if n := len(path) - (len(s.Path) - len(s.Keys)); n > 0 && n < len(s.Keys) {
				prefix = string(d.Text()[s.From:s.Keys[n]])
			}
		case inBelow:
			below = append(below, text)
		default:
			own = append(own, text)
		}
	}
	if header == "" && prefix == "" {
		return c, false
	}
	if header != "" {
		lines = append(lines, header)
	}
	for _, m := range set {
		lines = append(lines, prefix+tomlKey(m.Name)+" = "+inline(m.Value, " = ", tomlKey, " "))
	}
	now := strings.Join(slices.Concat(lines, own, below), d.eol)
	return change{block[0].From, block[len(block)-1].To, []byte(now)}, true
}

// block returns the statements of a table and the tables below it. ok is false if there are others between them.
func (d *doc) block(path []string) (block []tree.Statement, ok bool) {
	all, failure := d.Statements()
	if failure != nil {
		return nil, false
	}
	ended := false
	for _, s := range all {
		switch inside := len(s.Path) >= len(path) && slices.Equal(s.Path[:len(path)], path); {
		case inside && ended:
			return nil, false
		case inside:
			block = append(block, s)
		default:
			ended = len(block) > 0
		}
	}
	return block, len(block) > 0
}

// tomlExtent returns the offsets of an object in TOML.
func (d *doc) tomlExtent(path []string) (from, to int, ok bool) {
	if from, to, ok := d.tomlInline(path); ok {
		return from, to, true
	}
	block, ok := d.block(path)
	if !ok {
		return 0, 0, false
	}
	return block[0].From, block[len(block)-1].To, true
}

// tomlKey writes a key in TOML.
func tomlKey(name string) string {
	if regexp.MustCompile(`^[A-Za-z0-9_-]+$`).MatchString(name) {
		return name
	}
	return quoted(name)
}
