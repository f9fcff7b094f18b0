// Package edit replaces one value in the text of a config: JSON with comments, TOML or YAML. All
// other bytes of the text stay as they are, including comments, indentation, line ends and a byte
// order mark.
//
// Every edit is checked: the new text must parse to the same tree as the old one, except for the
// value, and the undo must return the old text. A text that cannot be edited in this way, for
// example because of a YAML alias, is refused. In JSON, a value does not affect how the rest of the
// text is read, so only the new value is parsed.
//
// Why no library: those that print a tree (hujson, go-toml, yaml) change the text of other values.
package edit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// A Member is a key of an object with its value: a string, a []string or a []Member.
type Member struct {
	Name  string
	Value any
}

// An Edit is what is needed to undo an edit of one value.
type Edit struct {
	Was []byte `json:"was"` // the replaced text
	// Value is the digest of the new value, which the program to which the file belongs may write
	// in another form.
	Value string `json:"value"`
	// Before is the digest of the value before the edit.
	Before string `json:"before,omitempty"`
}

// ErrChanged reports that a value is not the one that the edit wrote.
var ErrChanged = errors.New("it was changed after the edit")

// ErrMissing reports that there is no value at a path.
var ErrMissing = errors.New("it no longer exists")

// errForm reports that a value cannot be edited.
var errForm = errors.New("it is written in a form that cannot be edited, such as with a YAML alias, or as a TOML table with others in between")

// A doc is a parsed text.
type doc struct {
	*tree.Source
	bom    []byte
	format tree.Format
	root   *tree.Node
	eol    string // line end
}

func parse(text []byte, format tree.Format) (*doc, error) {
	d := &doc{Source: tree.NewSource(text), format: format, eol: "\n"}
	d.bom = text[:len(text)-len(d.Text())]
	root, failure := d.Parse(format)
	if failure != nil {
		line, _ := d.Position(failure.Offset)
		return nil, fmt.Errorf("line %d: %s", line, failure.Message)
	}
	d.root = root
	if i := bytes.IndexByte(d.Text(), '\n'); i > 0 && d.Text()[i-1] == '\r' {
		d.eol = "\r\n"
	}
	return d, nil
}

// at returns the value at a path, whose elements are keys and indexes, or nil.
func (d *doc) at(path []string) *tree.Node {
	n := d.root
	for _, name := range path {
		if n = child(n, name); n == nil {
			return nil
		}
	}
	return n
}

func child(n *tree.Node, name string) *tree.Node {
	if n.Kind == tree.List {
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(n.Items) {
			return n.Items[i]
		}
		return nil
	}
	if m := n.Get(name); m != nil {
		return m.Value
	}
	return nil
}

// A change replaces the text between two offsets.
type change struct {
	from, to int
	now      []byte
}

// apply returns the text with the changes, which are in file order.
func (d *doc) apply(changes ...change) []byte {
	out := slices.Clone(d.bom)
	at := 0
	for _, c := range changes {
		out = append(append(out, d.Text()[at:c.from]...), c.now...)
		at = c.to
	}
	return append(out, d.Text()[at:]...)
}

// A File is the text of a config, with its edits.
type File struct{ doc *doc }

// Open parses a text.
func Open(text []byte, format tree.Format) (*File, error) {
	d, err := parse(text, format)
	if err != nil {
		return nil, err
	}
	return &File{d}, nil
}

// Text returns the text with all edits.
func (f *File) Text() []byte { return f.doc.apply() }

// Value returns the value at a path, or nil if there is none.
func (f *File) Value(path []string) *tree.Node { return f.doc.at(path) }

// Object gives the object at a path new members: those in set, followed by those of its own members
// that keep accepts, as they are written. It returns what undoes the edit. If there is an error, the
// text is unchanged.
func (f *File) Object(path []string, set []Member, keep func(name string) bool) (Edit, error) {
	var edit Edit
	d := f.doc
	value := d.at(path)
	if value == nil || value.Kind != tree.Object {
		return edit, ErrMissing
	}
	kept := func(name string) bool {
		return keep(name) && !slices.ContainsFunc(set, func(m Member) bool { return m.Name == name })
	}
	var c change
	ok := true
	switch d.format {
	case tree.TOML:
		c, ok = d.toml(path, set, kept)
	case tree.YAML:
		c, ok = d.yaml(value, set, kept)
	default:
		c = d.json(value, set, kept)
	}
	if !ok {
		return edit, errForm
	}
	edit.Was = slices.Clone(d.Text()[c.from:c.to])
	want := &tree.Node{Kind: tree.Object}
	for _, m := range set {
		want.Members = append(want.Members, &tree.Member{Name: m.Name, Value: node(m.Value)})
	}
	for _, m := range value.Members {
		if kept(m.Name) {
			want.Members = append(want.Members, m)
		}
	}
	edit.Value, edit.Before = Digest(want), Digest(value)
	now, err := d.edited(c, path, want)
	if err != nil {
		return edit, err
	}
	if d.format != tree.JSON {
		back, err := now.undo(path, edit)
		if err != nil || !bytes.Equal(now.apply(back), d.apply()) {
			return edit, errForm
		}
	}
	f.doc = now
	return edit, nil
}

// Undone reports whether the value at a path is what it was before the edit, however it is written now.
func (f *File) Undone(path []string, edit Edit) bool {
	value := f.doc.at(path)
	return value != nil && Digest(value) == edit.Before
}

// Restore undoes an edit of the value at a path. The rest of the text may have changed meanwhile,
// and the value may be written in another form. The error is [ErrChanged] or [ErrMissing] if the
// value is not the one that the edit wrote.
func (f *File) Restore(path []string, edit Edit) error {
	back, err := f.doc.undo(path, edit)
	if err != nil {
		return err
	}
	now, err := f.doc.edited(back, path, nil)
	if err != nil {
		return err
	}
	f.doc = now
	return nil
}

// undo returns the change that undoes an edit of the value at a path.
func (d *doc) undo(path []string, edit Edit) (change, error) {
	value := d.at(path)
	if value == nil {
		return change{}, ErrMissing
	}
	if Digest(value) != edit.Value {
		return change{}, ErrChanged
	}
	from, to, ok := d.extent(path, value)
	if !ok {
		return change{}, errForm
	}
	return change{from, to, edit.Was}, nil
}

// edited returns the document with a change of the value at a path, which must become equal to want;
// if want is nil, it may become any object. d is invalid afterwards, unless there is an error.
func (d *doc) edited(c change, path []string, want *tree.Node) (*doc, error) {
	after := d.apply(c)
	if d.format == tree.JSON {
		return d.editedJSON(after, c, d.at(path), want)
	}
	now, err := parse(after, d.format)
	if err != nil || !isWanted(now.at(path), want) || !bytes.Equal(tree.Canonical(without(d.root, path)), tree.Canonical(without(now.root, path))) {
		return nil, errForm
	}
	return now, nil
}

// isWanted reports whether a value is an object that is equal to want, or any object if want is nil.
func isWanted(value, want *tree.Node) bool {
	return value != nil && value.Kind == tree.Object && (want == nil || bytes.Equal(tree.Canonical(value), tree.Canonical(want)))
}

// Digest returns a digest of a value that does not depend on how the value is written.
func Digest(value *tree.Node) string {
	sum := sha256.Sum256(tree.Canonical(value))
	return hex.EncodeToString(sum[:])
}

// extent returns the offsets of the object at a path.
func (d *doc) extent(path []string, value *tree.Node) (from, to int, ok bool) {
	switch d.format {
	case tree.TOML:
		return d.tomlExtent(path)
	case tree.YAML:
		from, to, _, ok = d.yamlExtent(value)
		return from, to, ok
	}
	return value.Offset, value.End, value.End > value.Offset
}

// without returns a copy of a tree without the value at a path.
func without(n *tree.Node, path []string) *tree.Node {
	if len(path) == 0 {
		return &tree.Node{}
	}
	copied := *n
	copied.Members, copied.Items = slices.Clone(n.Members), slices.Clone(n.Items)
	if n.Kind == tree.List {
		if i, err := strconv.Atoi(path[0]); err == nil && i < len(n.Items) {
			copied.Items[i] = without(n.Items[i], path[1:])
		}
		return &copied
	}
	for i, m := range n.Members {
		if m.Name == path[0] {
			copied.Members[i] = &tree.Member{Name: m.Name, Value: without(m.Value, path[1:])}
			break
		}
	}
	return &copied
}

// node returns the value of a Member as a tree.
func node(value any) *tree.Node {
	switch v := value.(type) {
	case []string:
		n := &tree.Node{Kind: tree.List}
		for _, item := range v {
			n.Items = append(n.Items, &tree.Node{Kind: tree.String, Text: item})
		}
		return n
	case []Member:
		n := &tree.Node{Kind: tree.Object}
		for _, m := range v {
			n.Members = append(n.Members, &tree.Member{Name: m.Name, Value: node(m.Value)})
		}
		return n
	}
	text, _ := value.(string)
	return &tree.Node{Kind: tree.String, Text: text}
}

// quoted returns a string in double quotes, which JSON, TOML and YAML read in the same way.
func quoted(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // encoding a string never fails
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}

// inline writes a value on one line; between is written between a key and its value, and key writes
// a key.
func inline(value any, between string, key func(string) string, pad string) string {
	var parts []string
	switch v := value.(type) {
	case []string:
		for _, item := range v {
			parts = append(parts, quoted(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case []Member:
		for _, m := range v {
			parts = append(parts, key(m.Name)+between+inline(m.Value, between, key, pad))
		}
		return "{" + pad + strings.Join(parts, ", ") + pad + "}"
	}
	text, _ := value.(string)
	return quoted(text)
}

// indentation returns the white space at the start of the line that contains an offset, and reports
// whether nothing else precedes the offset on this line.
func (d *doc) indentation(offset int) (space string, alone bool) {
	start := bytes.LastIndexByte(d.Text()[:offset], '\n') + 1
	line := string(d.Text()[start:offset])
	space = line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	return space, len(space) == len(line)
}
