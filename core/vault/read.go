package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// ErrNotFound reports that a resource or note does not exist.
var ErrNotFound = errors.New("not found")

// Content holds the content of a resource.
type Content struct {
	MIMEType string
	Text     string // always valid UTF-8
	Blob     string // in base64, in place of Text: a file of a skill that is not UTF-8; empty otherwise
}

// Read returns the current content of a resource. The error is ErrNotFound, the cause of ctx, or
// describes what is invalid in the URI.
func (v *Vault) Read(ctx context.Context, uri string) (Content, error) {
	t, err := parseURI(uri)
	if err != nil {
		return Content{}, err
	}
	s := v.now.Load()
	if !s.exists(t) {
		return Content{}, fmt.Errorf("%w: %s", ErrNotFound, uri)
	}
	if t.kind == kindNote {
		src, err := v.open(s, t.path)
		return Content{MIMEType: mimeMarkdown, Text: src}, err
	}
	if t.kind == kindSkill {
		return v.readSkill(ctx, t)
	}
	budget := contentBudget
	doc := s.render(t, func(n *note) (string, bool) {
		if n.size > int64(budget) {
			return "", false
		}
		src, err := v.open(s, n.path)
		budget -= len(src)
		return src, err == nil && budget >= 0
	})
	return Content{MIMEType: mimeJSON, Text: string(doc)}, nil
}

// open reads a note that is in the index, and replaces invalid UTF-8.
func (v *Vault) open(s *snapshot, p string) (string, error) {
	if s.note(p) == nil {
		return "", fmt.Errorf("%w: %s", ErrNotFound, p)
	}
	src, _, err := v.disk.read(p)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errMoved) || reason(err) != errUnreadable {
			return "", fmt.Errorf("%w: %s", ErrNotFound, p) // the index has not been updated yet
		}
		return "", fmt.Errorf("read the note: %w", reason(err)) // reason omits local file paths
	}
	return strings.ToValidUTF8(string(src), "\ufffd"), nil
}

// Note is a note with its metadata and links.
type Note struct {
	Path        string          `json:"path"`
	URI         string          `json:"uri"`
	Title       string          `json:"title"`
	Modified    string          `json:"modifiedAt"`
	Size        int64           `json:"size"`
	Tags        []string        `json:"tags"`
	Frontmatter json.RawMessage `json:"frontmatter,omitempty"`
	Links       []string        `json:"links"`       // paths of the notes that this note links to
	Broken      []string        `json:"brokenLinks"` // link targets that do not exist
	Backlinks   []string        `json:"backlinks"`   // paths of the notes that link to this note
	Content     string          `json:"content"`
}

// ReadNote returns the note with the given path, with or without ".md", or with the given name, as
// used in a wikilink. If ctx ends first, the error is the cause of ctx.
func (v *Vault) ReadNote(ctx context.Context, p string) (*Note, error) {
	p = strings.TrimPrefix(strings.TrimSpace(p), "/")
	if err := checkPath(p); err != nil {
		return nil, invalid("path: %v", err)
	}
	s := v.now.Load()
	n := s.note(p)
	if n == nil {
		n = s.note(s.linker().resolve(p, ""))
	}
	if n == nil {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, p)
	}
	src, err := v.open(s, n.path)
	if err != nil {
		return nil, err
	}
	backlinks, err := s.backlinks(ctx, n.path)
	if err != nil {
		return nil, err
	}
	// Parse the text again, because the index may be older than the file.
	f := v.scan.md.parse(n.path, []byte(src))
	now := &note{path: n.path, links: f.links}
	note := &Note{
		Path: n.path, URI: noteURI(n.path), Title: f.title, Modified: timestamp(n.modified), Size: int64(len(src)),
		Tags: listOf(f.tags), Frontmatter: f.metadata(), Content: src,
		Backlinks: listOf(backlinks),
	}
	to, broken := s.linkTargets(now)
	note.Links, note.Broken = listOf(to), listOf(broken)
	return note, nil
}

// Complete returns at most 100 paths of notes or folders that complete a partial path, and the
// total number of such paths.
func (v *Vault) Complete(beginning string, folders bool) (paths []string, total int) {
	return v.now.Load().commonPaths(beginning, folders, 100)
}
