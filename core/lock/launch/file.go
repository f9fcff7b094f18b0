package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/mcptrack/mcptrack/core/internal/regularfile"
	"github.com/mcptrack/mcptrack/core/launcher"
	"github.com/mcptrack/mcptrack/core/printable"
)

// script hashes the script or module that an interpreter runs, and adds the package that contains
// it.
func (r *resolver) script(l *Launch) {
	c := r.command
	candidates := []string{c.Name}
	if c.Kind == launcher.Module {
		file := strings.ReplaceAll(c.Name, ".", "/")
		candidates = []string{file + "/__main__.py", file + ".py"}
	} else if c.Tool == "node" || c.Tool == "bun" { // Node.js adds the suffix; a folder is a package
		candidates = append(candidates, c.Name+".js", c.Name+"/index.js")
	}
	for _, name := range candidates {
		path := r.path(filepath.FromSlash(name))
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			r.hash(l, path)
			return
		}
	}
	if c.Kind == launcher.Module {
		if p, ok := r.installed(r.server.Command, c.Name); ok {
			l.Packages = append(l.Packages, p)
			return
		}
		r.problem("the module %s was not found, so its content is not known", c.Name)
		return
	}
	r.problem("the script %s was not found, so its content is not known", filepath.Base(c.Name))
}

// scriptArgument hashes the first argument that names an existing script, such as the script of mcp run
// server.py and fastmcp run server.py:app.
func (r *resolver) scriptArgument(l *Launch) {
	for _, a := range r.command.Args {
		ext := filepath.Ext(a)
		ext, _, _ = strings.Cut(ext, ":")
		if !slices.Contains([]string{".py", ".js", ".mjs", ".cjs", ".ts", ".mts"}, ext) {
			continue
		}
		path := r.path(a[:strings.LastIndex(a, ext)+len(ext)])
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			r.hash(l, path)
			return
		}
	}
}

// program hashes a program of its own if the command is the path of a file and no script is an
// argument of it.
func (r *resolver) program(l *Launch) {
	name := r.command.Name
	switch {
	case l.File != nil || name == "":
		return
	case !strings.ContainsAny(name, `/\`):
		r.problem("the program %s is searched in PATH, so its content is not known", launcher.Base(name))
		return
	}
	path := r.path(name)
	if p, ok := r.installed(path, launcher.Base(path)); ok {
		// The starter that pip writes contains the absolute path of the interpreter.
		l.Packages = append(l.Packages, p)
		return
	}
	r.hash(l, path)
}

// hash adds the hash of a file, and the package of npm that contains it.
func (r *resolver) hash(l *Launch, path string) {
	if p, ok := owner(path); ok {
		l.Packages = append(l.Packages, p)
		if p.Integrity != "" {
			return // it covers the file
		}
	}
	sum, err := r.machine.hashes.of(path)
	if err != nil {
		r.problem("the content of %s is not known: %s", filepath.Base(path), printable.Reason(printable.Unnamed(err), 200))
		return
	}
	name, err := filepath.Rel(r.server.Dir, path)
	if err != nil || !filepath.IsLocal(name) {
		name = filepath.Base(path)
	}
	l.File = &File{Path: filepath.ToSlash(name), SHA256: sum}
}

// hashes remembers the hashes of files, because many servers may run the same program. It is safe for
// concurrent use. A nil *hashes remembers nothing.
type hashes struct {
	mu    sync.Mutex // guards files; not held while a file is read
	files map[string]hashed
}

// hashed is a file whose hash is known or is being determined.
type hashed struct {
	info fs.FileInfo // before the file was read
	sum  func() (string, error)
}

// of returns the hash of a file. It reads the file unless it did so before and the file has not been
// replaced or modified since.
func (h *hashes) of(path string) (string, error) {
	info, err := os.Stat(path)
	if h == nil || err != nil {
		return hashFile(path)
	}
	h.mu.Lock()
	f, known := h.files[path]
	if !known || !os.SameFile(f.info, info) || f.info.Size() != info.Size() || !f.info.ModTime().Equal(info.ModTime()) {
		f = hashed{info, sync.OnceValues(func() (string, error) { return hashFile(path) })}
		h.files[path] = f
	}
	h.mu.Unlock()
	return f.sum()
}

func hashFile(path string) (string, error) {
	f, _, err := regularfile.Open(path, MaxFile)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, MaxFile)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func readFile(path string) ([]byte, error) {
	data, _, err := regularfile.Read(path, MaxFile)
	return data, err
}

// maxEntries is how many entries of a folder are read.
const maxEntries = 10_000

// entries returns the entries of a folder, sorted by name; none if it cannot be read.
func entries(dir string) []fs.DirEntry {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	list, _ := f.ReadDir(maxEntries) // what was read before an error is used
	return list
}
