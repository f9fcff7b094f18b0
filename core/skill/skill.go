// Package skill represents the skills that MCP servers serve (extension io.modelcontextprotocol/skills,
// SEP-2640): the entry of a skill with its complete list of files, the check of what is read against
// that list, and the difference between two versions of it.
//
// Every byte of an entry comes from a server. [Parse] accepts an entry only if it follows the
// specification and keeps its limits; nothing in this package performs I/O. The specification says
// of digests that they are no security boundary: a match proves that entry and content belong
// together, not that either can be trusted.
package skill

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Limits of one skill. The specification fixes MaxFiles and MaxBytes; the others are ours.
const (
	MaxFiles       = 512      // files, SKILL.md included
	MaxBytes       = 16 << 20 // the sum of the sizes of the files
	MaxURI         = 2048     // bytes of a URI
	MaxFrontmatter = 64 << 10 // bytes of the frontmatter, as JSON or as YAML
	MaxName        = 64       // characters of a name (Agent Skills)
)

// Main is the name of the file that makes a directory a skill.
const Main = "SKILL.md"

// dynamic stands in place of the list of files of a skill without stable digests.
const dynamic = "dynamic"

// A File is one file of a skill.
type File struct {
	URI    string         `json:"uri"`
	Digest catalog.Digest `json:"digest"` // of the raw bytes; never zero
	Size   int64          `json:"size"`   // in bytes
}

// An Entry describes one skill of a server. Its JSON form is the specification's Skill, without
// unknown members.
type Entry struct {
	URI         string          // of SKILL.md
	Name        string          // frontmatter.name: a label that several skills of a server may have
	Description string          // frontmatter.description
	Frontmatter json.RawMessage // an object, as the server sent it
	// Files are all files, SKILL.md included, sorted by URI. It is nil for a dynamic skill, whose
	// content is generated and cannot be verified.
	Files []File
}

// Dynamic reports whether the skill has no list of files.
func (e Entry) Dynamic() bool { return e.Files == nil }

// entryJSON is the wire form of an entry.
type entryJSON struct {
	URI         string          `json:"uri"`
	Frontmatter json.RawMessage `json:"frontmatter"`
	Resources   json.RawMessage `json:"resources"`
}

// MarshalJSON returns the entry as the specification's Skill.
func (e Entry) MarshalJSON() ([]byte, error) {
	var files any = dynamic
	if !e.Dynamic() {
		files = e.Files
	}
	resources, err := json.Marshal(files)
	if err != nil {
		return nil, err
	}
	return json.Marshal(entryJSON{e.URI, e.Frontmatter, resources})
}

// fields returns the members of an object. Unlike decoding into a struct, it distinguishes case, as all
// other readers do.
func fields(raw json.RawMessage) (m map[string]json.RawMessage, ok bool) {
	err := json.Unmarshal(raw, &m)
	return m, err == nil && m != nil
}

// stringOf returns the string that raw contains, or false for anything else.
func stringOf(raw json.RawMessage) (s string, ok bool) {
	return s, bytes.HasPrefix(raw, []byte(`"`)) && json.Unmarshal(raw, &s) == nil
}

// UnmarshalJSON is [Parse].
func (e *Entry) UnmarshalJSON(raw []byte) (err error) {
	*e, err = Parse(raw)
	return err
}

// Parse returns the entry that a server sent. The error says which rule of the specification the
// entry breaks; it is printable and has no line breaks.
func Parse(raw json.RawMessage) (Entry, error) {
	members, ok := fields(raw)
	if !ok {
		return Entry{}, errors.New("skill: not an object with a uri")
	}
	w := entryJSON{Frontmatter: members["frontmatter"], Resources: members["resources"]}
	w.URI, _ = stringOf(members["uri"]) // if it is missing, it is empty
	e := Entry{URI: w.URI, Frontmatter: bytes.Clone(w.Frontmatter)}
	segments, err := split(e.URI)
	if err != nil {
		return Entry{}, fmt.Errorf("skill: uri: %w", err)
	}
	bad := func(format string, args ...any) (Entry, error) {
		return Entry{}, fmt.Errorf("skill %s: %w", printable.Line(e.URI, 200), fmt.Errorf(format, args...))
	}
	if n := len(segments); n < 2 || segments[n-1] != Main {
		return bad("the uri does not end with /NAME/%s", Main)
	}
	if e.Name, e.Description, err = describe(e.Frontmatter); err != nil {
		return bad("%w", err)
	}
	if dir := segments[len(segments)-2]; dir != e.Name {
		return bad("the directory %q is not the name %q", printable.Line(dir, MaxName), printable.Line(e.Name, MaxName))
	}
	if string(w.Resources) == `"`+dynamic+`"` {
		return e, nil
	}
	var files []json.RawMessage
	if !bytes.HasPrefix(bytes.TrimSpace(w.Resources), []byte("[")) || json.Unmarshal(w.Resources, &files) != nil {
		return bad(`resources is neither a list of files nor %q`, dynamic)
	}
	if len(files) > MaxFiles {
		return bad("%d files; at most %d are allowed", len(files), MaxFiles)
	}
	total := int64(0)
	e.Files = make([]File, 0, len(files))
	for _, raw := range files {
		f, ok := fields(raw)
		if !ok {
			return bad("resources has an element other than an object")
		}
		uri, _ := stringOf(f["uri"])
		if _, err := e.relative(uri); err != nil {
			return bad("file %q: %w", printable.Line(uri, 200), err)
		}
		digest, _ := stringOf(f["digest"])
		d, err := catalog.ParseDigest(digest)
		if err != nil || d.IsZero() || d.String() != digest {
			return bad("file %q: the digest is not sha256: and 64 lowercase hexadecimal digits", printable.Line(uri, 200))
		}
		var size *int64
		if json.Unmarshal(f["size"], &size) != nil || size == nil || *size < 0 || *size > MaxBytes {
			return bad("file %q: the size is missing or not between 0 and %d", printable.Line(uri, 200), MaxBytes)
		}
		total += *size
		e.Files = append(e.Files, File{uri, d, *size})
	}
	if total > MaxBytes {
		return bad("the files have %d bytes; at most %d are allowed", total, MaxBytes)
	}
	sort.Slice(e.Files, func(i, j int) bool { return e.Files[i].URI < e.Files[j].URI })
	for i := 1; i < len(e.Files); i++ {
		if e.Files[i].URI == e.Files[i-1].URI {
			return bad("file %q is listed twice", printable.Line(e.Files[i].URI, 200))
		}
	}
	if _, ok := e.File(e.URI); !ok {
		return bad("%s is not among the files", Main)
	}
	return e, nil
}

// describe returns the name and the description of a frontmatter.
func describe(frontmatter json.RawMessage) (name, description string, err error) {
	if len(frontmatter) > MaxFrontmatter {
		return "", "", fmt.Errorf("the frontmatter has more than %d bytes", MaxFrontmatter)
	}
	f, _ := fields(frontmatter)
	name, named := stringOf(f["name"])
	description, described := stringOf(f["description"])
	if !named || !described {
		return "", "", errors.New("the frontmatter is not an object with a name and a description")
	}
	if catalog.Depth(frontmatter) > catalog.MaxDepth {
		return "", "", fmt.Errorf("the frontmatter is nested deeper than %d levels", catalog.MaxDepth)
	}
	if name == "" || utf8.RuneCountInString(name) > MaxName {
		return "", "", fmt.Errorf("the name is empty or longer than %d characters", MaxName)
	}
	return name, description, nil
}

// split returns the decoded segments of a URI after "SCHEME://". It refuses every URI that another
// program may resolve to another place: relative segments, also when escaped, queries and fragments.
func split(uri string) ([]string, error) {
	switch {
	case uri == "":
		return nil, errors.New("it is missing or empty")
	case len(uri) > MaxURI:
		return nil, fmt.Errorf("it is longer than %d bytes", MaxURI)
	case printable.Line(uri, MaxURI) != uri || strings.ContainsAny(uri, " \"<>\\^`{|}?#"):
		return nil, errors.New("it contains a character that URIs of files do not have")
	}
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/:%@") {
		return nil, errors.New("it does not begin with SCHEME://")
	}
	segments := strings.Split(rest, "/")
	for i, s := range segments {
		decoded, err := url.PathUnescape(s)
		if err != nil || decoded == "." || decoded == ".." || decoded == "" && i > 0 ||
			strings.ContainsAny(decoded, `/\`) || printable.Line(decoded, MaxURI) != decoded {
			return nil, errors.New("it has an empty, a relative or an invalid segment")
		}
		segments[i] = decoded
	}
	return segments, nil
}

// Dir returns the URI of the skill's directory, without a slash at its end.
func (e Entry) Dir() string { return strings.TrimSuffix(e.URI, "/"+Main) }

// Mains returns the URIs of the SKILL.md of all skills that a file at this URI may belong to, the
// innermost first. There are none for a URI that is too long for a skill.
func Mains(uri string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for dir := uri; len(uri) <= MaxURI; {
			i := strings.LastIndexByte(dir, '/')
			if i <= 0 || strings.HasSuffix(dir[:i], ":/") {
				return
			}
			if dir = dir[:i]; !yield(dir + "/" + Main) {
				return
			}
		}
	}
}

// relative returns the path of a file below the skill's directory, as it is spelled in the URI.
func (e Entry) relative(uri string) (string, error) {
	if _, err := split(uri); err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(uri, e.Dir()+"/")
	if !ok {
		return "", fmt.Errorf("it is not in the directory %s", printable.Line(e.Dir(), 200))
	}
	return path, nil
}

// Contains reports whether a URI is in the skill's directory, whether or not the entry lists it.
func (e Entry) Contains(uri string) bool {
	_, err := e.relative(uri)
	return err == nil
}

// File returns the listed file with this URI.
func (e Entry) File(uri string) (File, bool) {
	i, ok := slices.BinarySearchFunc(e.Files, uri, func(f File, uri string) int { return cmp.Compare(f.URI, uri) })
	if !ok {
		return File{}, false
	}
	return e.Files[i], true
}

// Size returns the sum of the sizes of all files.
func (e Entry) Size() (bytes int64) {
	for _, f := range e.Files {
		bytes += f.Size
	}
	return bytes
}

// Digest returns the digest of everything that an approval of the skill binds to: its URI, its
// frontmatter, and the URIs, digests and sizes of its files. The order of files and of JSON keys has
// no influence. The digest of a dynamic skill says nothing about its content.
func (e Entry) Digest() catalog.Digest {
	raw, err := e.MarshalJSON()
	if err != nil {
		return catalog.Digest{}
	}
	d, err := catalog.Fingerprint(raw)
	if err != nil {
		return catalog.Digest{}
	}
	return d
}

// A Mismatch is the error for content that must not be used, because it is not what the skill's
// entry says. The content may be corrupt, changed by somebody, or newer than the entry.
type Mismatch struct {
	URI    string `json:"skillFile"`
	Reason string `json:"reason"` // printable
}

func (m *Mismatch) Error() string {
	return "skill file " + printable.Line(m.URI, 200) + " does not match its entry: " + m.Reason
}

// Verify returns a [*Mismatch] if the raw content of a file has not the size and digest of its entry.
func (f File) Verify(content []byte) error {
	if int64(len(content)) != f.Size {
		return &Mismatch{f.URI, fmt.Sprintf("the content has %d bytes instead of %d", len(content), f.Size)}
	}
	if d := catalog.Digest(sha256.Sum256(content)); d != f.Digest {
		return &Mismatch{f.URI, fmt.Sprintf("the content's digest is %s instead of %s", d, f.Digest)}
	}
	return nil
}

// Verify checks a file that was read of the skill: it must be listed and have the listed size and
// digest, and the frontmatter of SKILL.md must be the entry's. Of a dynamic skill, only the
// frontmatter is checked. The error is a [*Mismatch].
func (e Entry) Verify(uri string, content []byte) error {
	if !e.Dynamic() {
		f, ok := e.File(uri)
		if !ok {
			return &Mismatch{uri, "the entry does not list the file"}
		}
		if err := f.Verify(content); err != nil {
			return err
		}
	}
	if uri != e.URI {
		return nil
	}
	if key, err := compare(content, e.Frontmatter); err != nil {
		return &Mismatch{uri, err.Error()}
	} else if key != "" {
		return &Mismatch{uri, fmt.Sprintf("the field %q of the frontmatter is not the entry's", printable.Line(key, 100))}
	}
	return nil
}

// A FileChange is a file whose content differs between two versions of a skill.
type FileChange struct {
	File
	PreviousDigest catalog.Digest `json:"previousDigest"`
	PreviousSize   int64          `json:"previousSize"`
}

// Delta is the difference between the files of two versions of a skill, each slice sorted by URI.
type Delta struct {
	Added   []File       `json:"added,omitempty"`
	Removed []File       `json:"removed,omitempty"`
	Changed []FileChange `json:"changed,omitempty"`
}

// Diff compares the files of two entries, sorted by URI as [Parse] returns them.
func Diff(from, to []File) (d Delta) {
	for len(from) > 0 || len(to) > 0 {
		switch {
		case len(to) == 0 || len(from) > 0 && from[0].URI < to[0].URI:
			d.Removed = append(d.Removed, from[0])
			from = from[1:]
		case len(from) == 0 || to[0].URI < from[0].URI:
			d.Added = append(d.Added, to[0])
			to = to[1:]
		default:
			if from[0] != to[0] {
				d.Changed = append(d.Changed, FileChange{to[0], from[0].Digest, from[0].Size})
			}
			from, to = from[1:], to[1:]
		}
	}
	return d
}
