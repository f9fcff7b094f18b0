package edit

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// tomlInline returns the offsets of an object written as {…}, and reports whether there is one.
func (d *doc) tomlInline(path []string) (from, to int, ok bool) {
	parent := d.at(path[:len(path)-1])
	if parent == nil || parent.Get(path[len(path)-1]) == nil {
		return 0, 0, false
	}
	t, at := d.Text(), parent.Get(path[len(path)-1]).Offset
	// Skip the key, which may be quoted, and the equals sign.
	for at < len(t) && t[at] != '=' {
		if t[at] == '\n' || t[at] == ']' || t[at] == '.' {
			return 0, 0, false
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
	if at >= len(t) || t[at] != '{' {
		return 0, 0, false
	}
	return at, d.EndOfTOML(at), true
}

// toml returns the changes for a table in TOML. Its statements need not be adjacent: those that
// follow elsewhere are replaced by a comment, so that Restore finds their place.
func (d *doc) toml(path []string, set []Member, keep func(string) bool) ([]change, error) {
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
		return []change{{from, to, []byte("{ " + strings.Join(members, ", ") + " }")}}, nil
	}
	blocks, err := d.blocks(path)
	if err != nil {
		return nil, err
	}
	first := slices.IndexFunc(blocks, func(b []tree.Statement) bool {
		return slices.ContainsFunc(b, func(s tree.Statement) bool { return s.Header && len(s.Path) == len(path) })
	})
	var changes []change
	for i, block := range blocks {
		var own, below []string // statements to keep: of the table, and of tables below it
		drop := false
		header, prefix := "", ""
		inBelow := false
		for _, s := range block {
			text := string(d.Text()[s.From:s.To])
			switch name := append(slices.Clone(s.Path), "")[len(path)]; {
			case s.Header && len(s.Path) == len(path):
				header, inBelow = text, false
			case s.Header:
				inBelow = true
				if keep(name) {
					below = append(below, "", text)
				} else {
					drop = true
				}
			case !keep(name):
				drop = true
				if n := len(path) - (len(s.Path) - len(s.Keys)); n > 0 && n < len(s.Keys) {
					prefix = string(d.Text()[s.From:s.Keys[n]])
				}
			case inBelow:
				below = append(below, text)
			default:
				own = append(own, text)
			}
		}
		var lines []string
		if i == max(first, 0) {
			if header == "" && prefix == "" {
				return nil, errForm
			}
			if header != "" {
				lines = append(lines, header)
			}
			for _, m := range set {
				lines = append(lines, prefix+tomlKey(m.Name)+" = "+inline(m.Value, " = ", tomlKey, " "))
			}
		} else if !drop {
			continue
		} else {
			lines = append(lines, marker(path, i))
		}
		now := strings.Join(slices.Concat(lines, own, below), d.eol)
		changes = append(changes, change{block[0].From, block[len(block)-1].To, []byte(now)})
	}
	return changes, nil
}

// marker returns the comment in place of the block of a table.
func marker(path []string, block int) string {
	return "# mcptrack: part " + string(rune('0'+min(block+1, 9))) + " of [" + strings.Join(mapped(path, tomlKey), ".") + "] was here"
}

func mapped(in []string, by func(string) string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = by(s)
	}
	return out
}

// blocks returns the statements of a table and the tables below it, grouped by those that are
// adjacent.
func (d *doc) blocks(path []string) (blocks [][]tree.Statement, err error) {
	all, failure := d.Statements()
	if failure != nil {
		return nil, errForm
	}
	adjacent := false
	for _, s := range all {
		if len(s.Path) < len(path) || !slices.Equal(s.Path[:len(path)], path) {
			adjacent = false
			continue
		}
		if !adjacent {
			blocks = append(blocks, nil)
		}
		blocks[len(blocks)-1] = append(blocks[len(blocks)-1], s)
		adjacent = true
	}
	if len(blocks) == 0 || len(blocks) > 9 {
		return nil, errForm
	}
	return blocks, nil
}

// tomlPieces returns the changes that restore the pieces of a table.
func (d *doc) tomlPieces(path []string, pieces []Piece) ([]change, error) {
	var places [][2]int
	if from, to, ok := d.tomlInline(path); ok {
		places = append(places, [2]int{from, to})
	} else {
		blocks, err := d.blocks(path)
		if err != nil {
			return nil, ErrChanged
		}
		for _, b := range blocks {
			places = append(places, [2]int{b[0].From, b[len(b)-1].To})
		}
	}
	if len(places) == 1 && len(pieces) == 1 { // also if it is written in another form
		return []change{{places[0][0], places[0][1], pieces[0].Was}}, nil
	}
	var changes []change
	for _, p := range pieces {
		i := slices.IndexFunc(places, func(at [2]int) bool { return bytes.Equal(d.Text()[at[0]:at[1]], p.Now) })
		switch {
		case i >= 0:
			changes = append(changes, change{places[i][0], places[i][1], p.Was})
		case !bytes.HasPrefix(p.Now, []byte("# mcptrack: ")) || bytes.Count(d.Text(), p.Now) != 1:
			return nil, ErrChanged
		default:
			at := bytes.Index(d.Text(), p.Now)
			changes = append(changes, change{at, at + len(p.Now), p.Was})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return a.from - b.from })
	return changes, nil
}

// tomlKey writes a key in TOML.
func tomlKey(name string) string {
	if regexp.MustCompile(`^[A-Za-z0-9_-]+$`).MatchString(name) {
		return name
	}
	return quoted(name)
}
