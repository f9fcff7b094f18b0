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
	"sort"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// An Intent describes what one server or webhook in a file would run or send, and to whom. The user
// must approve it first. It is stored as written in the file, without the values of references, and
// is immutable.
type Intent struct {
	// Keys holds the effective keys of the entry, sorted by name. It excludes keys that only
	// determine what is followed and keys that are only informational.
	Keys []IntentKey
	// Uses lists what the entry refers to outside the file, sorted and without duplicates.
	Uses []Use
	// Digest identifies the intent: "sha256:" followed by 64 hexadecimal digits. It covers the ID
	// of the server (because filters depend on it), Keys, Uses, and the content of each envFile and
	// ${file:…} in the project, because everyone who can change the config can also change these
	// files.
	Digest string
	// Line and Column are the position of the entry in the file, as in a [Problem]. They are
	// not part of what is approved.
	Line, Column int
}

// IntentKey is one key of an entry, with its value as JSON with sorted keys.
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
	// Path is the absolute path of a file. Symbolic links are resolved in the part of the path that
	// exists.
	Path string
	// Outside means that the file is outside the project, which is the repository that contains the
	// workspace or, if there is none, the workspace.
	Outside bool
	// Sets lists the variables that an envFile defines.
	Sets string

	content string // digest of the content of a file in the project
}

// UseKind specifies where the value of a reference comes from.
type UseKind string

// The kinds of references.
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

// use records that the current entry refers to something outside the file.
func (e *expander) use(u Use) {
	if e.uses == nil {
		e.uses = map[Use]bool{}
	}
	e.uses[u] = true
}

func (e *expander) forgetUses() { e.uses = nil }

// fileUse returns a Use for a file with the given content.
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

// projectOf returns the repository that contains a folder, or the folder itself if there is none.
// The user's home folder is never a project, even if it is a repository, because its files belong
// to the user.
func projectOf(folder, home string) string {
	for dir := folder; dir != home && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
	}
	return folder
}

// followed returns the path with the symbolic links resolved in the part that exists.
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

// intent returns the intent of an entry whose keys have been read. id is the ID of the server, and
// keys are the effective keys.
func (e *entry) intent(id string, keys []string) *Intent {
	in := &Intent{Uses: slices.Collect(maps.Keys(e.expander.uses))}
	for _, name := range keys {
		if f, ok := e.present(name); ok {
			in.Keys = append(in.Keys, IntentKey{name, tree.Canonical(f.value)})
		}
	}
	sort.Slice(in.Keys, func(i, j int) bool { return in.Keys[i].Name < in.Keys[j].Name })
	sort.Slice(in.Uses, func(i, j int) bool {
		a, b := in.Uses[i], in.Uses[j]
		return cmp.Or(strings.Compare(a.String(), b.String()), strings.Compare(a.Path, b.Path)) < 0
	})
	type use struct{ Reference, Path, Content string }
	var uses []use
	for _, u := range in.Uses {
		uses = append(uses, use{u.String(), u.Path, u.content})
	}
	text, _ := json.Marshal(struct { // never fails, because all values are JSON
		ID   string
		Keys []IntentKey
		Uses []use
	}{id, in.Keys, uses})
	in.Digest = digest(text)
	in.Line, in.Column = e.Position(e.object.Offset)
	return in
}

// Command returns the command and its arguments as written in the entry, or false if there is no
// command or not all of them are strings.
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

// URL returns the URL as written in the entry, or an empty string if there is none.
func (in *Intent) URL() string { return in.text("url") }

// Dir returns the working directory as written in the entry, or an empty string if there is none.
func (in *Intent) Dir() string { return in.text("cwd") }

// text returns the value of a key that is a string, or an empty string.
func (in *Intent) text(key string) (value string) {
	spellings := serverKeys().get(key).spellings
	for _, k := range in.Keys {
		if slices.Contains(spellings, k.Name) && json.Unmarshal(k.Value, &value) == nil {
			return value
		}
	}
	return ""
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
