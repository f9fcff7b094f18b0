// Package catalog represents what one MCP server offers: the items of its four lists as raw JSON,
// their digests, and the differences between two versions of a list.
//
// Items keep the bytes that the server sent. SDK structs drop data they do not recognise ($schema,
// x-…, unknown members, integers beyond 2^53), so a digest of the struct would miss real changes.
// All values in this package are immutable after construction, and none of its functions performs
// I/O.
package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/internal/rawjson"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Kind identifies one of the lists of an MCP server.
type Kind string

// The tracked lists. Skills are an extension; their items are the entries of package skill, which do
// not depend on the order in which a server lists the files.
const (
	Resources Kind = "resources"
	Templates Kind = "templates"
	Prompts   Kind = "prompts"
	Tools     Kind = "tools"
	Skills    Kind = "skills"
)

// Events is the list of event types that a server offers (MCP Events). It is loaded like the other
// lists, but is not included in [Kinds], because its changes are not tracked.
const Events Kind = "events"

// Kinds returns the tracked kinds in a fixed order.
func Kinds() []Kind { return []Kind{Resources, Templates, Prompts, Tools, Skills} }

// Method returns the JSON-RPC method that lists items of this kind.
func (k Kind) Method() string {
	if k == Templates {
		return "resources/templates/list"
	}
	return string(k) + "/list"
}

// Field returns the name of the member that contains the items in a list result.
func (k Kind) Field() string {
	if k == Templates {
		return "resourceTemplates"
	}
	return string(k)
}

// KeyField returns the name of the member that identifies an item of this kind: the URI, the URI
// template, or the name.
func (k Kind) KeyField() string {
	switch k {
	case Resources, Skills:
		return "uri"
	case Templates:
		return "uriTemplate"
	default:
		return "name"
	}
}

// Digest is a SHA-256 digest of a resource's content or of a descriptor. The zero Digest means that
// it is unknown.
type Digest [sha256.Size]byte

// IsZero reports whether the digest is unknown.
func (d Digest) IsZero() bool { return d == Digest{} }

// Gone returns a marker that is recorded in place of a digest when it was published that a listed
// resource has no content. It never equals the digest of any content.
func Gone() Digest { return mark(0xfe) }

// Unread returns a marker that is recorded in place of a digest when an update was published
// without reading the content. It never equals the digest of any content.
func Unread() Digest { return mark(0xfd) }

func mark(b byte) (d Digest) {
	for i := range d {
		d[i] = b
	}
	return d
}

// String returns "sha256:" followed by 64 hex digits, or an empty string for the zero Digest.
func (d Digest) String() string {
	text, _ := d.AppendText(nil) // never fails
	return string(text)
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

// AppendText implements [encoding.TextAppender].
func (d Digest) AppendText(b []byte) ([]byte, error) {
	if d.IsZero() {
		return b, nil
	}
	return hex.AppendEncode(append(b, "sha256:"...), d[:]), nil
}

func (d Digest) MarshalText() ([]byte, error) { return d.AppendText(nil) }

// UnmarshalText implements [encoding.TextUnmarshaler]. A digest in an unknown format, for example
// one that uses another algorithm, becomes the zero Digest.
func (d *Digest) UnmarshalText(text []byte) error {
	*d, _ = ParseDigest(string(text))
	return nil
}

// Item is one item of a list, with its descriptor.
type Item struct {
	Key    string          // see [Kind.KeyField]
	Raw    json.RawMessage // the descriptor as the server sent it
	Digest Digest          // digest of Raw, independent of key order, white space and members that are null
}

// NewItem returns an item of kind k for the JSON that a server sent. It fails if the JSON is not an
// object with a usable key.
func NewItem(k Kind, raw json.RawMessage) (Item, error) {
	var members []rawjson.Member // nil unless raw is an object
	if json.Valid(raw) {
		members = sortedMembers(raw)
	}
	if members == nil {
		return Item{}, fmt.Errorf("%s item: not a JSON object", k)
	}
	key := ""
	if at := slices.IndexFunc(members, func(m rawjson.Member) bool { return m.Name == k.KeyField() }); at >= 0 {
		_ = json.Unmarshal(members[at].Value, &key) // stays empty if it is not a text
	}
	if key == "" {
		return Item{}, fmt.Errorf("%s item without a usable %q", k, k.KeyField())
	}
	members = slices.DeleteFunc(members, func(m rawjson.Member) bool { return m.Value[0] == 'n' }) // null means the same as absent
	return Item{Key: key, Raw: raw, Digest: sha256.Sum256(appendObject(make([]byte, 0, len(raw)), members, 0))}, nil
}

// Descriptor holds the members of an item that tables and events display.
type Descriptor struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	MimeType    string `json:"mimeType"`
	Size        *int64 `json:"size"`
}

// Describe decodes the members of the item that are displayed. It ignores members of the wrong
// type. The name and description of a skill are in its frontmatter.
func (it Item) Describe() (d Descriptor) {
	named := func(name string) func(rawjson.Member) bool {
		return func(m rawjson.Member) bool { return m.Name == name }
	}
	members := rawjson.Members(it.Raw)
	if at := slices.IndexFunc(members, named("frontmatter")); at >= 0 && !slices.ContainsFunc(members, named("name")) {
		members = rawjson.Members(members[at].Value)
	}
	for _, m := range members {
		var into any
		switch m.Name {
		case "name":
			into = &d.Name
		case "title":
			into = &d.Title
		case "description":
			into = &d.Description
		case "mimeType":
			into = &d.MimeType
		case "size":
			into = &d.Size
		default:
			continue
		}
		_ = json.Unmarshal(m.Value, into) // a value of the wrong type describes nothing
	}
	return d
}

// Fingerprint hashes a JSON value, ignoring key order and white space. Numbers are equal only if
// their digits are. Invalid UTF-8 and unpaired surrogates are all equal.
func Fingerprint(raw json.RawMessage) (Digest, error) {
	if !json.Valid(raw) {
		return Digest{}, json.Unmarshal(raw, new(json.RawMessage))
	}
	return sha256.Sum256(appendCanonical(make([]byte, 0, len(raw)), bytes.TrimSpace(raw), 0)), nil
}

// Text returns the definition of a text that is not part of a list, such as the instructions of a
// server: the text encoded as JSON, and its [Fingerprint]. Both are zero for an empty text.
func Text(text string) (definition string, d Digest) {
	if text == "" {
		return "", d
	}
	encoded, err := json.Marshal(text)
	if err != nil {
		return "", d // strings can always be encoded
	}
	return string(encoded), sha256.Sum256(encoded)
}

// List is one list of a server: items sorted by key, with unique keys.
type List []Item

// NewList sorts the items and keeps only the first item for every key, because some servers repeat
// items and lists are compared as sets.
func NewList(items []Item) List {
	l := slices.Clone(items)
	slices.SortStableFunc(l, func(a, b Item) int { return strings.Compare(a.Key, b.Key) })
	return slices.CompactFunc(l, func(a, b Item) bool { return a.Key == b.Key })
}

// Get returns the item with the given key, or false if there is none.
func (l List) Get(key string) (Item, bool) {
	i, ok := slices.BinarySearchFunc(l, key, func(it Item, k string) int { return strings.Compare(it.Key, k) })
	if !ok {
		return Item{}, false
	}
	return l[i], true
}

// Keys returns the keys in sorted order.
func (l List) Keys() []string {
	keys := make([]string, len(l))
	for i, it := range l {
		keys[i] = it.Key
	}
	return keys
}

// Delta holds the keys of the items that differ between two versions of a list, each slice sorted.
type Delta struct {
	Added, Removed, Changed []string
}

// Empty reports whether the two versions are equal.
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

// MaxDepth limits how deeply objects and arrays may be nested in the JSON sent by a server and in
// the frontmatter of a note. Package config has its own limit, whose error includes a position.
const MaxDepth = 64

// Depth returns how deeply objects and arrays are nested in valid JSON.
func Depth(raw []byte) int {
	now, most := 0, 0
	inString := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			now++
			most = max(most, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return most
}
