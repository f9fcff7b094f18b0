package lock

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// algorithm is the name of the hash in a file: SHA-256 over RFC 8785.
const algorithm = "sha256-jcs"

// Hashing is how items are hashed. The zero value excludes nothing.
type Hashing struct {
	// Exclude has the members that hashes leave out: a section, followed by the JSON Pointer
	// (RFC 6901) of a member of its definitions, such as "resources/annotations/lastModified". A file may
	// have only the exclusions of [DefaultHashing], or some of them. A value that is neither a number nor
	// a time is not left out.
	Exclude []string
}

// DefaultHashing excludes the members of resources that change whenever the content changes.
func DefaultHashing() Hashing {
	return Hashing{Exclude: []string{
		"resources/annotations/lastModified",
		"resources/size",
		"templates/annotations/lastModified",
	}}
}

// Item returns an item of a section for the JSON that a server sent. It keeps definition. If the
// definition cannot be hashed, the item has a Problem and no hash, and so it is drift.
func (h Hashing) Item(section Section, definition json.RawMessage) Item {
	it := Item{Definition: definition}
	canonical, err := canonicalize(definition)
	if err == nil {
		it.Key, err = keyOf(section, canonical)
	} else {
		it.Key, _ = keyOf(section, jsontext.Value(definition)) // only to show it
	}
	if err == nil {
		it.Hash, it.rest, err = h.hash(section, canonical)
	}
	if err != nil {
		it.Hash, it.Problem = "", printable.Line(err.Error(), 300)
	}
	return it
}

// Redact replaces secrets in the texts of a definition with "[redacted]". If there are any, the item has a
// Problem then, because a lock would publish them.
func (it *Item) Redact(secrets []string) {
	var pairs []string
	for _, s := range secrets {
		if s != "" {
			pairs = append(pairs, s, "[redacted]")
		}
	}
	replacer := strings.NewReplacer(pairs...)
	found := false
	clean := func(text string) string {
		redacted := replacer.Replace(text)
		found = found || redacted != text
		return redacted
	}
	var out bytes.Buffer
	enc := jsontext.NewEncoder(&out, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	dec := jsontext.NewDecoder(bytes.NewReader(it.Definition), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		token, err := dec.ReadToken()
		if err != nil {
			break // the end; what is malformed is left out
		}
		if token.Kind() == '"' {
			token = jsontext.String(clean(token.String()))
		}
		if enc.WriteToken(token) != nil {
			break
		}
	}
	if !found {
		return
	}
	*it = Item{Key: replacer.Replace(it.Key), Definition: bytes.TrimSpace(out.Bytes()), Problem: "it contains a credential of the config, which the lock would publish"}
}

// hash returns the hash of a valid definition in canonical form. If members are excluded, rest is the
// definition without them.
func (h Hashing) hash(section Section, canonical jsontext.Value) (hash string, rest json.RawMessage, err error) {
	if section == SectionInstructions {
		var text string
		if err := jsonv2.Unmarshal(canonical, &text); err != nil {
			return "", nil, err
		}
		return sum([]byte(text)), nil, nil
	}
	excluded := false
	for _, entry := range h.Exclude {
		of, pointer, _ := strings.Cut(entry, "/")
		if Section(of) != section {
			continue
		}
		path := slices.Collect(jsontext.Pointer("/" + pointer).Tokens())
		if less, ok := without(canonical, path); ok {
			canonical, excluded = less, true
		}
	}
	if excluded {
		if err := canonical.Canonicalize(); err != nil {
			return "", nil, err
		}
		rest = json.RawMessage(canonical)
	}
	return sum(canonical), rest, nil
}

// check returns an error unless all exclusions are exclusions of [DefaultHashing]. Others in a file would
// hide changes from everybody who does not read its first lines.
func (h Hashing) check() error {
	all := DefaultHashing().Exclude
	for i, entry := range h.Exclude {
		if !slices.Contains(all, entry) {
			return fmt.Errorf("hashes must not leave out \"%s\", because its changes would not be found; they leave out only %s", printable.Line(entry, 100), strings.Join(all, ", "))
		}
		if slices.Contains(h.Exclude[:i], entry) {
			return fmt.Errorf("\"%s\" is left out twice", entry)
		}
	}
	return nil
}

// canonicalize returns a definition in the form of RFC 8785. It refuses what readers of JSON
// understand differently: duplicate members, invalid UTF-8, unpaired surrogates, and numbers that
// are too large for a float64.
func canonicalize(definition json.RawMessage) (jsontext.Value, error) {
	if depth := catalog.Depth(definition); depth > catalog.MaxDepth {
		return nil, fmt.Errorf("objects and arrays are nested %d levels deep; the limit is %d", depth, catalog.MaxDepth)
	}
	v := jsontext.Value(bytes.Clone(definition))
	if err := v.Canonicalize(); err != nil {
		return nil, plain(err)
	}
	// The library replaces a number that is too large with the largest float64.
	if !bytes.Contains(v, []byte("1.7976931348623157e+308")) {
		return v, nil
	}
	for dec := jsontext.NewDecoder(bytes.NewReader(definition)); ; {
		token, err := dec.ReadToken()
		if err != nil {
			return v, nil // the end
		}
		if token.Kind() != '0' {
			continue
		}
		if _, err := strconv.ParseFloat(token.String(), 64); err != nil {
			return nil, fmt.Errorf("the number %s is too large", printable.Line(token.String(), 40))
		}
	}
}

// plain returns an error of the JSON library without its prefix and offset.
func plain(err error) error {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return err
	}
	reason := strings.TrimPrefix(syntax.Err.Error(), "jsontext: ")
	if syntax.JSONPointer == "" {
		return errors.New(reason)
	}
	return fmt.Errorf("%s at %s", reason, syntax.JSONPointer)
}

// without returns an object without the member at a path; ok is false if there is none, or if its value is
// more than a number or a time, because a text could instruct a model.
func without(v jsontext.Value, path []string) (rest jsontext.Value, ok bool) {
	var members map[string]jsontext.Value
	if v.Kind() != '{' || jsonv2.Unmarshal(v, &members) != nil {
		return v, false
	}
	inner, ok := members[path[0]]
	switch {
	case ok && len(path) > 1:
		members[path[0]], ok = without(inner, path[1:])
	case ok:
		ok = inner.Kind() == '0' || len(inner) <= 40 && strings.Trim(string(inner), `"0123456789-+:.TZ`) == ""
		delete(members, path[0])
	}
	if !ok {
		return v, false
	}
	rest, err := jsonv2.Marshal(members)
	return rest, err == nil
}

// keyField returns the member of a definition that is the key of the item; empty for a section that
// has at most one item.
func keyField(section Section) string {
	switch section {
	case SectionLaunch, SectionCapabilities, SectionInstructions, SectionPolicy:
		return ""
	case SectionContents:
		return catalog.Resources.KeyField()
	default:
		return catalog.Kind(section).KeyField()
	}
}

// keyOf returns the key of an item. Of duplicate members, the last one counts.
func keyOf(section Section, definition jsontext.Value) (string, error) {
	if section == SectionInstructions {
		if definition.Kind() != '"' {
			return "", errors.New("it is not a JSON string")
		}
		return "", nil
	}
	if definition.Kind() != '{' {
		return "", errors.New("it is not a JSON object")
	}
	field := keyField(section)
	if field == "" {
		return "", nil
	}
	key := member(definition, field)
	if key == "" {
		return "", fmt.Errorf("it has no %s", field)
	}
	if section == SectionContents {
		return key, checkContent(definition)
	}
	return key, nil
}

// member returns a member of an object that is a string, the last one of several; empty if there is
// none.
func member(object jsontext.Value, name string) (text string) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := dec.ReadToken(); err != nil {
		return ""
	}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			break
		}
		if token.String() != name {
			if dec.SkipValue() != nil {
				break
			}
			continue
		}
		value, err := dec.ReadToken()
		if err != nil {
			break
		}
		text = ""
		if value.Kind() == '"' {
			text = value.String()
		} else if value.Kind() == '{' || value.Kind() == '[' {
			break
		}
	}
	return text
}

// sum returns the SHA-256 of data in hexadecimal.
func sum(data []byte) string {
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}

// SetHash returns the hash of a list of items: the SHA-256 of the lines "key:hash", which are sorted
// by the UTF-16 code units of the keys and then by hash, and joined by line feeds.
func SetHash(items []Item) string {
	type line struct {
		key  []uint16
		text string
	}
	lines := make([]line, len(items))
	for i, it := range items {
		lines[i] = line{utf16.Encode([]rune(it.Key)), it.Key + ":" + it.Hash}
	}
	sort.Slice(lines, func(i, j int) bool {
		return cmp.Or(slices.Compare(lines[i].key, lines[j].key), strings.Compare(lines[i].text, lines[j].text)) < 0
	})
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = l.text
	}
	return sum([]byte(strings.Join(texts, "\n")))
}
