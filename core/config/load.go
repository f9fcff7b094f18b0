package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/internal/regularfile"
	"github.com/mcptrack/mcptrack/core/internal/writable"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Limits for a config file.
const (
	MaxFileSize = tree.MaxSize
	MaxDepth    = tree.MaxDepth
)

// Options describe the environment in which a file is read. By default, it is the environment of
// the process: its variables, working directory and home folder.
type Options struct {
	// Getenv looks up an environment variable; nil means os.LookupEnv.
	Getenv func(name string) (value string, set bool)
	// Workspace is the value of ${workspaceFolder}. Relative paths in the file and the file names
	// tried by Find are resolved against it. If it is empty, the working directory is used.
	Workspace string
	// UserHome is the value of ${userHome}; if it is empty, os.UserHomeDir is used.
	UserHome string
	// Keyring returns a secret in the user's keyring, for ${keyring:NAME}. If it is nil, the
	// keyring is not used.
	Keyring func(name string) (string, error)
	// Strict turns every warning into an error.
	Strict bool
	// Insecure allows files that another user owns or could change (see package writable). Without
	// it, a config file of this kind is an error, and a server that refers to such a file is
	// Unconfigured.
	Insecure bool
	// AnyProject makes HostFiles return Claude Code's own file also if all its servers belong to other folders (see
	// Projects).
	AnyProject bool
}

// Load reads and checks one file. It returns all problems in the file. It returns a Config if none of
// them is an error or, for the file of a host, if all errors are in entries of servers: these are
// Unconfigured. A missing file is reported as one problem with code not_found.
//
// Load opens the file only once, so it never sees a mixture of two versions if the file is replaced
// by a rename.
func Load(path string, opts Options) (*Config, Problems) {
	data, opened, problem := openFile(path, SizeLimit(path))
	if problem != nil {
		problem.Severity, problem.File, problem.Line, problem.Column = SeverityError, path, 1, 1
		return nil, Problems{*problem}
	}
	changeable := opts.changeable(path)
	if changeable == nil { // path may refer to a different file now
		changeable, _ = errors.AsType[*writable.Error](writable.File(path, opened))
	}
	return parse(data, path, opts, changeable)
}

// LoadData does the same as Load for data that was already read from the file.
func LoadData(data []byte, path string, opts Options) (*Config, Problems) {
	return parse(data, path, opts, opts.changeable(path))
}

// Parse does the same as Load for data that is not stored in a file. The path is only used in
// problems and Config.Path. Parse does not retain data.
func Parse(data []byte, path string, opts Options) (*Config, Problems) {
	return parse(data, path, opts, nil)
}

// changeable returns an error if another user could change the file.
func (o Options) changeable(path string) *writable.Error {
	root := ""
	abs, err := filepath.Abs(path)
	if workspace, known := o.workspace(); err == nil && known == nil {
		path, root = abs, workspace
	}
	found, _ := errors.AsType[*writable.Error](writable.ByOthers(path, root)) // ByOthers returns no other type of error
	return found
}

func parse(data []byte, path string, opts Options, changeable *writable.Error) (*Config, Problems) {
	d := newDocument(data, path)
	if changeable != nil {
		report := d.errorAt
		if opts.Insecure {
			report = d.warnAt
		}
		report(0, "", CodeInsecure, "a config determines what mcptrack runs, and "+changeable.Error(), changeable.Hint)
	}
	if others := hosts.Siblings(path); len(others) > 0 {
		d.warnAt(0, "", CodeUnsupported, fmt.Sprintf("the servers in %s are ignored: mcptrack reads only one config file", siblingNames(others)),
			"mcptrack init writes all servers into one config")
	}
	cfg := d.read(data, opts)
	d.problems.sort()
	if opts.Strict {
		for i := range d.problems {
			d.problems[i].Severity = SeverityError
		}
	}
	if cfg == nil || opts.Strict && len(d.problems) > 0 {
		return nil, d.problems
	}
	cfg.Path = path
	return cfg, d.problems
}

// siblingNames lists the base names of the first few paths for a message.
func siblingNames(paths []string) string {
	const most = 5
	var names []string
	for _, path := range paths[:min(len(paths), most)] {
		names = append(names, quote(filepath.Base(path)))
	}
	if more := len(paths) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// read returns the config described by the document, or nil if the document must be refused.
func (d *document) read(data []byte, opts Options) *Config {
	if most := SizeLimit(d.file); int64(len(data)) > most {
		p := tooLarge(most)
		d.errorAt(0, "", p.Code, p.Message, p.Hint)
		return nil
	}
	r, root := d.open(opts)
	if r == nil {
		return nil
	}
	r.root(root)
	if !r.confine() {
		return nil
	}
	if !r.tracks && (r.foreign || r.format != tree.JSON || hosts.Owns(absolute(d.file))) {
		r.config.trackAll()
	}
	slices.Sort(r.expander.files)
	r.config.Files = slices.Compact(r.expander.files)
	return r.config
}

// open parses the document. If that is not possible, it reports why and returns nil.
func (d *document) open(opts Options) (*reader, *tree.Node) {
	workspace, err := opts.workspace()
	if err != nil {
		d.errorAt(0, "", CodeUnreadable, fmt.Sprintf("cannot determine the working directory: %v", err), "")
		return nil, nil
	}
	r := newReader(d, opts, workspace)
	root, failure := d.Parse(r.format)
	if failure != nil {
		d.errorAt(failure.Offset, "", Code(failure.Code), failure.Message, failure.Hint)
		return nil, nil
	}
	return r, root
}

// visit calls the function for each entry of a document that was loaded before, with references as they are
// written and as if all variables were set. It returns false if the document cannot be parsed.
func (d *document) visit(opts Options, entry func(e *entry, id string)) bool {
	r, root := d.open(opts)
	if r == nil {
		return false
	}
	r.expander.verbatim, r.expander.getenv = true, func(string) (string, bool) { return "", true }
	r.visit = entry
	r.root(root)
	return true
}

// absolute returns the absolute path of a file, or the path itself if the working directory is
// unknown.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// SizeLimit returns the maximum size in bytes of a config at this path: MaxFileSize, or more for a
// JSON file in which a host also stores other data, such as the user's history.
func SizeLimit(path string) int64 {
	if hosts.IsSettings(path) && tree.Detect(path) == tree.JSON {
		return 16 * MaxFileSize
	}
	return MaxFileSize
}

// openFile returns the content and file info of a regular file with a size of at most most bytes,
// or a problem without a position. The problem omits the path, because every problem specifies its file.
func openFile(path string, most int64) (data []byte, opened fs.FileInfo, problem *Problem) {
	data, opened, err := regularfile.Read(path, most)
	switch _, large := errors.AsType[*regularfile.SizeError](err); {
	case err == nil:
		return data, opened, nil
	case large:
		return nil, nil, tooLarge(most)
	case errors.Is(err, regularfile.ErrNotRegular):
		return nil, nil, &Problem{Code: CodeNotRegular, Message: "is not a regular file"}
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, &Problem{Code: CodeNotFound, Message: "config file not found",
			Hint: "check the path, or run mcptrack init to create a config"}
	}
	return nil, nil, &Problem{Code: CodeUnreadable, Message: fmt.Sprintf("cannot read config file: %v", printable.Unnamed(err))}
}

func tooLarge(most int64) *Problem {
	return &Problem{Code: CodeTooLarge, Message: fmt.Sprintf("file is larger than %d KiB", most>>10)}
}

// maxProblems limits the number of errors, and separately the number of warnings, that are reported
// for one file. Warnings never displace errors.
const maxProblems = 1000

// A document holds the text of one file and the problems found in it so far.
type document struct {
	*tree.Source
	file     string
	problems Problems
	errors   int
	warnings int
	secrets  map[int]bool // offsets of the values that were already reported as secrets
}

func newDocument(data []byte, file string) *document {
	return &document{file: file, Source: tree.NewSource(data), secrets: map[int]bool{}}
}

func (d *document) errorAt(offset int, path pointer, code Code, message, hint string) {
	d.report(SeverityError, offset, path, code, message, hint)
}

func (d *document) warnAt(offset int, path pointer, code Code, message, hint string) {
	d.report(SeverityWarning, offset, path, code, message, hint)
}

func (d *document) report(severity Severity, offset int, path pointer, code Code, message, hint string) {
	count, kind := &d.warnings, "warnings"
	if severity == SeverityError {
		count, kind = &d.errors, "errors"
	}
	if *count == maxProblems || code == CodeSecret && severity == SeverityWarning && d.secrets[offset] {
		return
	}
	if code == CodeSecret {
		d.secrets[offset] = true
	}
	if *count++; *count == maxProblems {
		path, code, hint = "", CodeTooManyProblems, ""
		message = fmt.Sprintf("the file has more than %d %s; the rest are not shown", maxProblems-1, kind)
	}
	line, column := d.Position(offset)
	d.problems = append(d.problems, Problem{Severity: severity, File: d.file, Line: line, Column: column,
		Path: path.String(), Code: code, Message: message, Hint: hint})
}

// full reports whether the limit on errors has been reached, so that reading can stop.
func (d *document) full() bool { return d.errors == maxProblems }

// A pointer is a JSON pointer. Its methods return copies, so that siblings can share a parent.
type pointer string

func (p pointer) key(name string) pointer {
	if strings.ContainsAny(name, "~/") {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
	}
	return p + "/" + pointer(name)
}

func (p pointer) index(i int) pointer { return p + "/" + pointer(strconv.Itoa(i)) }

// last returns the last key or index, in escaped form.
func (p pointer) last() string { return string(p[strings.LastIndexByte(string(p), '/')+1:]) }

// String returns the pointer in truncated form and with tokens redacted, because its keys come from
// the file, and each problem repeats all keys on the path to its position.
func (p pointer) String() string {
	const most = 1024
	if credential.Token(string(p[:min(len(p), 2*most)])) {
		parts := strings.Split(string(p[:min(len(p), 2*most)]), "/")
		for i, part := range parts {
			if credential.Token(part) {
				parts[i] = "…"
			}
		}
		p = pointer(strings.Join(parts, "/"))
	}
	s := strings.ToValidUTF8(string(p), "\ufffd")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// quote formats a key or an ID from the file for a message: quoted, truncated and with invisible
// characters escaped, or as "…" if it looks like a token.
func quote(s string) string {
	const most = 64
	if credential.Token(s[:min(len(s), 1024)]) {
		return `"…"`
	}
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return strconv.Quote(s)
}

// duplicateKeys reports each key that occurs twice in an object in the tree under n. JSON parsers
// silently use the last value, which may not be what the author intended. If ids is set, the keys
// of n itself are skipped, because checkID has a better message for duplicate server IDs.
func (d *document) duplicateKeys(n *tree.Node, path pointer, ids bool) {
	seen := make(map[string]int, len(n.Members))
	for _, m := range n.Members {
		if d.full() {
			return
		}
		first, duplicate := seen[m.Name]
		switch {
		case !duplicate:
			seen[m.Name] = m.Offset
		case !ids && first != m.Offset: // otherwise it is the same key, reached through two YAML aliases
			d.duplicate(m, first, path)
		}
		d.duplicateKeys(m.Value, path.key(m.Name), false)
	}
	for i, item := range n.Items {
		d.duplicateKeys(item, path.index(i), false)
	}
}

// duplicate reports that a key of the object at path already occurred at the offset first.
func (d *document) duplicate(m *tree.Member, first int, path pointer) {
	line, _ := d.Position(first)
	d.errorAt(m.Offset, path.key(m.Name), CodeDuplicateKey,
		fmt.Sprintf("Duplicate key %s; it is already on line %d", quote(m.Name), line), "keep one of them")
}
