package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// An Intent is what one server or webhook of a file would run or send, and to whom. The user
// approves it before it happens. It is as written in the file, without the values of references. It
// is immutable.
type Intent struct {
	// Keys are the effective keys of the entry, sorted by name, without the keys that only decide
	// what is followed or are for people.
	Keys []IntentKey
	// Uses are what the entry takes from outside the file, sorted, without duplicates.
	Uses []Use
	// Digest identifies the intent: "sha256:" and 64 hexadecimal digits. It covers the ID of the
	// server, on which filters depend, Keys, Uses, and the content of each envFile and ${file:…} in
	// the project, which everybody who can change the config can also change.
	Digest string
}

// IntentKey is one key of an entry. Value is JSON with sorted keys.
type IntentKey struct {
	Name  string
	Value json.RawMessage
}

// Use is a reference from an entry to something on the user's machine.
type Use struct {
	Kind UseKind
	// Name is the name of the variable or keyring entry, or the path of the file as written in the
	// config.
	Name string
	// Path is the absolute path of a file, without the symbolic links in the part that exists.
	Path string
	// Outside means that the file is not in the project: the workspace, or the repository that
	// contains it.
	Outside bool
	// Sets lists the variables that an envFile sets.
	Sets string

	content string // the digest of a file in the project
}

// UseKind is where the value of a reference comes from.
type UseKind string

// The kinds.
const (
	UseVariable UseKind = "variable"
	UseFile     UseKind = "file"
	UseKeyring  UseKind = "keyring"
)

// String returns the use as a reference.
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
	if e.uses == nil {
		e.uses = map[Use]bool{}
	}
	e.uses[u] = true
}

func (e *expander) forgetUses() { e.uses = nil }

// fileUse returns the use of a file with the content.
func (e *expander) fileUse(name, path, content string) Use {
	u := Use{Kind: UseFile, Name: name, Path: followed(path)}
	if e.project == "" {
		e.project = projectOf(followed(e.workspace), followed(e.home))
	}
	inside, err := filepath.Rel(e.project, u.Path)
	if u.Outside = err != nil || !filepath.IsLocal(inside); !u.Outside && content != "" {
		u.content = digest([]byte(content))
	}
	return u
}

// projectOf returns the repository that contains a folder, else the folder. The user's home is not a
// project even if it is a repository: its files are the user's own.
func projectOf(folder, home string) string {
	for dir := folder; dir != home && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
	}
	return folder
}

// followed returns the path without the symbolic links in the part that exists.
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

// intent returns the intent of an entry after its keys were read. id is the ID of the server, and
// keys are the effective keys.
func (e *entry) intent(id string, keys []string) *Intent {
	in := &Intent{Uses: slices.Collect(maps.Keys(e.expander.uses))}
	for _, name := range keys {
		if f, ok := e.present(name); ok {
			in.Keys = append(in.Keys, IntentKey{name, tree.Canonical(f.value)})
		}
	}
	slices.SortFunc(in.Keys, func(a, b IntentKey) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(in.Uses, func(a, b Use) int {
		return cmp.Or(strings.Compare(a.String(), b.String()), strings.Compare(a.Path, b.Path))
	})
	type use struct{ Reference, Path, Content string }
	var uses []use
	for _, u := range in.Uses {
		uses = append(uses, use{u.String(), u.Path, u.content})
	}
	text, _ := json.Marshal(struct { // cannot fail: all values are JSON
		ID   string
		Keys []IntentKey
		Uses []use
	}{id, in.Keys, uses})
	in.Digest = digest(text)
	return in
}

// Command returns the command and its arguments as written in the entry; false if there is none, or
// not all are strings.
func (in *Intent) Command() (command string, args []string, ok bool) {
	for _, k := range in.Keys {
		switch k.Name {
		case "command", "cmd":
			var list []string
			if json.Unmarshal(k.Value, &command) != nil {
				if json.Unmarshal(k.Value, &list) != nil || len(list) == 0 {
					return "", nil, false
				}
				command, args = list[0], list[1:]
			}
		}
	}
	for _, k := range in.Keys {
		var more []string
		if k.Name == "args" && json.Unmarshal(k.Value, &more) != nil {
			return "", nil, false
		}
		args = append(args, more...)
	}
	return command, args, command != ""
}

// URL returns the URL as written in the entry; "" if there is none.
func (in *Intent) URL() (raw string) {
	urls := serverKeys().get("url").spellings
	for _, k := range in.Keys {
		if slices.Contains(urls, k.Name) && json.Unmarshal(k.Value, &raw) == nil {
			return raw
		}
	}
	return ""
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
