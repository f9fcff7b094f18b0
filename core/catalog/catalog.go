// Package catalog describes what one MCP server offers, as values: the items of its four
// lists in raw JSON, their digests, and the differences of two lists.
//
// Items keep the bytes that the server sent. SDK structs drop fields they do not
// know ($schema, x-…, unknown members, integers beyond 2^53), so a digest of the
// struct would miss real changes. Everything here is immutable after
// construction and free of I/O.
package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Kind names one of the lists of an MCP server.
type Kind string

// The four lists.
const (
	Resources Kind = "resources"
	Templates Kind = "templates"
	Prompts   Kind = "prompts"
	Tools     Kind = "tools"
)

// Events are the types of events that a server offers (MCP Events). They are listed like
// the other kinds, but are not one of [Kinds]: changes of the list are not tracked.
const Events Kind = "events"

// Kinds returns all kinds in a fixed order.
func Kinds() []Kind { return []Kind{Resources, Templates, Prompts, Tools} }

// Method is the JSON-RPC method that lists the kind.
func (k Kind) Method() string {
	if k == Templates {
		return "resources/templates/list"
	}
	return string(k) + "/list"
}

// Field is the member of the list result that holds the items.
func (k Kind) Field() string {
	if k == Templates {
		return "resourceTemplates"
	}
	return string(k)
}

// KeyField is the member that identifies an item of the kind: the URI, the URI
// template, or the name.
func (k Kind) KeyField() string {
	switch k {
	case Resources:
		return "uri"
	case Templates:
		return "uriTemplate"
	default:
		return "name"
	}
}

// Digest is a SHA-256 of content or of a descriptor. The zero Digest means
// "not known".
type Digest [sha256.Size]byte

// IsZero reports whether the digest is not known.
func (d Digest) IsZero() bool { return d == Digest{} }

// Gone and Unread stand in the place of the digest of a content that was published: that there is
// none, although the resource is listed, and that there is a new one, which is not known. No
// content has them.
func Gone() Digest { return mark(0xfe) }

// Unread is described with [Gone].
func Unread() Digest { return mark(0xfd) }

func mark(b byte) (d Digest) {
	for i := range d {
		d[i] = b
	}
	return d
}

// String returns "sha256:" and 64 hex digits, or "" for the zero Digest.
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return "sha256:" + hex.EncodeToString(d[:])
}

// ParseDigest is the inverse of [Digest.String].
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if s == "" {
		return d, nil
	}
	h, ok := strings.CutPrefix(s, "sha256:")
	if b, err := hex.DecodeString(h); ok && err == nil && len(b) == len(d) {
		return Digest(b), nil
	}
	return d, fmt.Errorf("invalid digest %q; expected sha256: and %d hex digits", printable.Line(s, 100), hex.EncodedLen(len(d)))
}

// MarshalText implements [encoding.TextMarshaler].
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. A digest that this version does
// not understand, such as one of another algorithm, becomes the zero Digest.
func (d *Digest) UnmarshalText(text []byte) error {
	*d, _ = ParseDigest(string(text))
	return nil
}

// Item is one descriptor of a list.
type Item struct {
	Key    string          // see [Kind.KeyField]
	Raw    json.RawMessage // the descriptor as the server sent it
	Digest Digest          // of Raw, independent of key order and white space
}

// NewItem returns an item of the kind for the bytes that a server sent. It fails if they
// are not a JSON object with a usable key.
func NewItem(k Kind, raw json.RawMessage) (Item, error) {
	if !json.Valid(raw) {
		return Item{}, fmt.Errorf("%s item: not a JSON object", k)
	}
	lossless := Lossless(raw)
	v, err := decode(lossless)
	if err != nil {
		return Item{}, fmt.Errorf("%s item: %w", k, err)
	}
	members, ok := v.(map[string]any)
	if !ok {
		return Item{}, fmt.Errorf("%s item: not a JSON object", k)
	}
	key, _ := members[k.KeyField()].(string)
	if !bytes.Equal(lossless, raw) {
		key = keyOf(k, raw)
	}
	if key == "" {
		return Item{}, fmt.Errorf("%s item without a usable %q", k, k.KeyField())
	}
	d, err := digest(v)
	if err != nil {
		return Item{}, fmt.Errorf("%s item %q: %w", k, key, err)
	}
	return Item{Key: key, Raw: raw, Digest: d}, nil
}

// keyOf decodes the key of an object as it is shown: what [Lossless] preserves is not part of it.
func keyOf(k Kind, raw json.RawMessage) string {
	var members map[string]json.RawMessage
	var key string
	if json.Unmarshal(raw, &members) != nil || json.Unmarshal(members[k.KeyField()], &key) != nil {
		return ""
	}
	return key
}

// Descriptor is the part of an item that tables and events display.
type Descriptor struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	MimeType    string `json:"mimeType"`
	Size        *int64 `json:"size"`
}

// Describe decodes the displayed part of the item. Members of a wrong type are left out
// instead of failing.
func (it Item) Describe() Descriptor {
	var members map[string]json.RawMessage
	var d Descriptor
	if json.Unmarshal(it.Raw, &members) != nil {
		return d
	}
	for name, into := range map[string]any{"name": &d.Name, "title": &d.Title,
		"description": &d.Description, "mimeType": &d.MimeType, "size": &d.Size} {
		if raw, ok := members[name]; ok {
			_ = json.Unmarshal(raw, into)
		}
	}
	return d
}

// Fingerprint hashes a JSON value independent of key order and white space. Numbers
// differ if their digits do, and strings also in what decoding would lose (see [Lossless]).
func Fingerprint(raw json.RawMessage) (Digest, error) {
	v, err := decode(Lossless(raw))
	if err != nil {
		return Digest{}, err
	}
	return digest(v)
}

// digest hashes a decoded value.
func digest(v any) (Digest, error) {
	canonical, err := json.Marshal(v) // map keys are sorted
	if err != nil {
		return Digest{}, err
	}
	return sha256.Sum256(canonical), nil
}

// List is one list of a server: items sorted by key, keys unique.
type List []Item

// NewList sorts the items and keeps the first of every key: some servers repeat items,
// and a list is compared as a set.
func NewList(items []Item) List {
	l := slices.Clone(items)
	slices.SortStableFunc(l, func(a, b Item) int { return strings.Compare(a.Key, b.Key) })
	return slices.CompactFunc(l, func(a, b Item) bool { return a.Key == b.Key })
}

// Get finds the item with the key.
func (l List) Get(key string) (Item, bool) {
	i, ok := slices.BinarySearchFunc(l, key, func(it Item, k string) int { return strings.Compare(it.Key, k) })
	if !ok {
		return Item{}, false
	}
	return l[i], true
}

// Keys returns the keys in order.
func (l List) Keys() []string {
	keys := make([]string, len(l))
	for i, it := range l {
		keys[i] = it.Key
	}
	return keys
}

// Delta says how a list differs from an older one: keys, each sorted.
type Delta struct {
	Added, Removed, Changed []string
}

// Empty reports whether the two lists are the same.
func (d Delta) Empty() bool { return len(d.Added)+len(d.Removed)+len(d.Changed) == 0 }

// Diff compares two lists in one pass.
func Diff(from, to List) Delta {
	var d Delta
	i, j := 0, 0
	for i < len(from) || j < len(to) {
		switch {
		case j == len(to) || i < len(from) && from[i].Key < to[j].Key:
			d.Removed = append(d.Removed, from[i].Key)
			i++
		case i == len(from) || to[j].Key < from[i].Key:
			d.Added = append(d.Added, to[j].Key)
			j++
		default:
			if from[i].Digest != to[j].Digest {
				d.Changed = append(d.Changed, to[j].Key)
			}
			i, j = i+1, j+1
		}
	}
	return d
}
