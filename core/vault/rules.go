package vault

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/glob"
)

// maxDepth is the nesting depth below which folders are ignored.
const maxDepth = 64

// rules decide by path what is part of a vault.
type rules struct{ globs []string }

// ignored reports whether an entry of a folder in the vault is excluded: hidden
// entries (.obsidian, .trash, .git), temporary files of editors, and glob matches.
func (r rules) ignored(p string, dir bool) bool {
	name := path.Base(p)
	if strings.HasPrefix(name, ".") || strings.Count(p, "/") >= maxDepth {
		return true
	}
	if !dir && scratch(name) {
		return true
	}
	return slices.ContainsFunc(r.globs, func(g string) bool {
		return glob.Match(g, p) || !strings.Contains(g, "/") && glob.Match(g, name)
	})
}

// scratch reports whether a file is a temporary file of an editor or browser.
func scratch(name string) bool {
	switch path.Ext(name) {
	case ".tmp", ".swp", ".swo", ".swx", ".vsctmp", ".crdownload", ".part":
		return true
	}
	return name == "4913" || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
}

// hides reports whether a path or a folder above it is ignored.
func (r rules) hides(p string, dir bool) bool {
	for i := range len(p) {
		if p[i] == '/' && r.ignored(p[:i], true) {
			return true
		}
	}
	return r.ignored(p, dir)
}

// printableName reports whether a name is valid UTF-8 without control characters.
func printableName(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// goodName reports whether a file or folder can be part of the vault by its name: it
// must be printable and possible in the path of a URI.
func goodName(name string) bool { return printableName(name) && !strings.Contains(name, `\`) }

// isNote reports whether a path has the extension of a note.
func isNote(p string) bool { return strings.EqualFold(path.Ext(p), ".md") }
