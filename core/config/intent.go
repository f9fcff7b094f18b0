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
	// digest if the IDs of their servers are equal, on which filters depend, their Keys and Uses,
	// and the content of each envFile and ${file:…} that lies in the project: whoever can change
	// the config can change those, too.
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
	// Name is the name of the variable or of the keyring entry, or the path of the file as the config
	// writes it.
	Name string
	// Path is the absolute path of a file, links followed as far as it exists.
	Path string
	// Outside says that the file does not lie in the project: the workspace, or the repository
	// that it is a part of.
	Outside bool
	// Sets are the names of the variables that an envFile sets, in one line.
	Sets string

	content string // digest of a file in the project
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
	if e.uses == nil {
		e.uses = map[Use]bool{}
	}
	e.uses[u] = true
}

func (e *expander) forgetUses() { e.uses = nil }

// fileUse is the use of a file that has the content.
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

// projectOf returns the repository that a folder is a part of, or else the folder. The user's home is
// no project, even if it is a repository: what lies there is the user's.
func projectOf(folder, home string) string {
	for dir := folder; dir != home && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
	}
	return folder
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

// intent returns the intent of an entry that was read. id is the ID of the server, and keys are the
// keys that matter.
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

// Command returns the command and its arguments as the entry writes them; false if it writes none,
// or in another form than strings.
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

// URL returns the URL as the entry writes it; "" if it writes none.
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
