package vault

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// maxDepth is how deep folders may be nested; below, nothing is looked at.
const maxDepth = 64

// rules say what is part of a vault by its path.
type rules struct{ globs []string }

// ignored reports whether an entry is no part of the vault, the folders above it
// being part of it: hidden ones (which .obsidian, .trash and .git are), what
// editors leave while they save, and what the globs say.
func (r rules) ignored(p string, dir bool) bool {
	name := path.Base(p)
	if strings.HasPrefix(name, ".") || strings.Count(p, "/") >= maxDepth {
		return true
	}
	if !dir && scratch(name) {
		return true
	}
	for _, glob := range r.globs {
		if ok, _ := doublestar.Match(glob, p); ok {
			return true
		}
		if !strings.Contains(glob, "/") {
			if ok, _ := doublestar.Match(glob, name); ok {
				return true
			}
		}
	}
	return false
}

// scratch reports whether a file is of an editor and not of the user.
func scratch(name string) bool {
	switch path.Ext(name) {
	case ".tmp", ".swp", ".swo", ".swx", ".vsctmp", ".crdownload", ".part":
		return true
	}
	return name == "4913" || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
}

// hides reports whether a path has a part that is ignored.
func (r rules) hides(p string, dir bool) bool {
	for i := range len(p) {
		if p[i] == '/' && r.ignored(p[:i], true) {
			return true
		}
	}
	return r.ignored(p, dir)
}

// printableName reports whether a name can be told: text without control
// characters.
func printableName(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// goodName reports whether a file or folder can be part of the vault by its name: one
// that can be told, and that the path in a URI can have.
func goodName(name string) bool { return printableName(name) && !strings.Contains(name, `\`) }

// isNote reports whether a file is a note by its name.
func isNote(p string) bool { return strings.EqualFold(path.Ext(p), ".md") }
