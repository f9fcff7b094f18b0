package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// An Intent is what one server or webhook of a file would run or send, and to whom: what a user
// approves before it happens. It is as the file writes it, so that it holds no value of a
// reference. It is immutable.
type Intent struct {
	// Keys are the keys of the entry that matter, sorted by name. Keys that only decide what is
	// followed, or that are meant for people, are left out.
	Keys []IntentKey
	// Uses are what the entry takes from outside the file, sorted, each once.
	Uses []Use
	// Digest identifies the intent: "sha256:" and 64 hexadecimal digits. Two entries have the same
	// digest if their Keys and Uses are equal, and the content of the used files that lie in the
	// workspace: who can change the config can change those, too. Names of servers do not matter.
	Digest string
}

// IntentKey is one key of an entry. Value is JSON with sorted keys.
type IntentKey struct {
	Name  string
	Value json.RawMessage
}

// Use is a reference to something of the user's machine that goes into an entry.
type Use struct {
	Kind UseKind
	// Name is that of the variable or of the entry in the keyring; of a file it is the path as the
	// file writes it.
	Name string
	// Path is the absolute path of a file, links followed as far as it exists.
	Path string
	// Outside says that the file does not lie in the workspace.
	Outside bool

	content string // digest of a file in the workspace
}

// UseKind says where the value of a reference comes from.
type UseKind string

// The kinds.
const (
	UseVariable UseKind = "variable"
	UseFile     UseKind = "file"
	UseKeyring  UseKind = "keyring"
)

// String returns the use in the form of a reference.
func (u Use) String() string {
	switch u.Kind {
	case UseFile:
		return "${file:" + u.Name + "}"
	case UseKeyring:
		return "${keyring:" + u.Name + "}"
	}
	return "${" + u.Name + "}"
}

// use records what the current entry takes from outside the file.
func (e *expander) use(u Use) {
	if !slices.Contains(e.uses, u) {
		e.uses = append(e.uses, u)
	}
}

// fileUse is the use of a file that has the content.
func (e *expander) fileUse(name, path string, content []byte) Use {
	u := Use{Kind: UseFile, Name: name, Path: followed(path)}
	inside, err := filepath.Rel(followed(e.workspace), u.Path)
	if u.Outside = err != nil || !filepath.IsLocal(inside); !u.Outside && content != nil {
		u.content = digest(content)
	}
	return u
}

// followed returns the path without symbolic links, as far as it exists.
func followed(path string) string {
	for rest, dir := "", filepath.Clean(path); ; rest, dir = filepath.Join(filepath.Base(dir), rest), filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return filepath.Clean(path)
		}
	}
}

// intent returns the intent of an entry that was read. keys are those that matter.
func (e *entry) intent(keys []string) *Intent {
	in := &Intent{Uses: slices.Clone(e.expander.uses)}
	for _, name := range keys {
		if f, ok := e.present(name); ok {
			in.Keys = append(in.Keys, IntentKey{name, tree.Canonical(f.value)})
		}
	}
	slices.SortFunc(in.Keys, func(a, b IntentKey) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(in.Uses, func(a, b Use) int { return strings.Compare(a.String(), b.String()) })
	type use struct{ Reference, Path, Content string }
	var uses []use
	for _, u := range in.Uses {
		uses = append(uses, use{u.String(), u.Path, u.content})
	}
	text, _ := json.Marshal(struct { // cannot fail: all values are JSON
		Keys []IntentKey
		Uses []use
	}{in.Keys, uses})
	in.Digest = digest(text)
	return in
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
