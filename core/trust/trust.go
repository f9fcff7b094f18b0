// Package trust stores what the user approved of configs that were found in folders.
//
// An approval is for a folder and the digest of what an entry of a config would run or send (see
// config.Intent). It becomes invalid when the entry changes, and valid again when the old entry
// returns, for example on another branch.
//
// Each folder has its own file, which only the user can read and write. If two processes
// simultaneously store approvals for one folder, one may be lost, and the user is asked again. A file
// that is damaged, or that others could have written, approves nothing.
package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/internal/writable"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// Store holds the approvals of one user. Its methods may be called concurrently.
type Store struct{ dir string }

// New returns the store in a directory, which is created with the first approval. With "", nothing is
// approved, and Approve fails with [ErrNoStore].
func New(dir string) *Store { return &Store{dir} }

// ErrNoStore is returned if there is no directory for approvals.
var ErrNoStore = errors.New("there is no directory for approvals")

// Approval is one approved entry.
type Approval struct {
	Digest string `json:"digest"`
	Kind   Kind   `json:"kind"`
	// Name is the name of the server, or the origin of the webhook's URL as written in its config.
	// It is for people; the digest decides.
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

// Kind is the kind of an entry.
type Kind string

// The kinds.
const (
	Server  Kind = "server"
	Webhook Kind = "webhook"
)

// Folder holds the approvals for one folder.
type Folder struct {
	Path      string     `json:"folder"` // absolute and without symbolic links
	Key       string     `json:"key"`    // the digest of the path, which need not be text
	Approvals []Approval `json:"approvals"`
}

// Limits for one folder, so that its file can be read. The oldest approvals are deleted first, and
// names are truncated.
const (
	maxApprovals = 2000
	maxName      = 128 // bytes
)

// Resolved returns the absolute path of a folder, without symbolic links if it exists.
func Resolved(folder string) (string, error) {
	abs, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real, nil
	}
	return abs, nil // it was removed; its approvals can still be listed and revoked
}

// File returns the path of the file with the approvals for a folder, so that it can be watched; "" if
// there is no store.
func (s *Store) File(folder string) string {
	path, err := Resolved(folder)
	if err != nil || s.dir == "" {
		return ""
	}
	return filepath.Join(s.dir, keyOf(path)+".json")
}

func keyOf(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16])
}

// Approved returns the approvals for a folder; none with an error.
func (s *Store) Approved(folder string) (Folder, error) {
	path, err := Resolved(folder)
	if err != nil || s.dir == "" {
		return Folder{}, err
	}
	f, err := read(s.File(folder))
	if err != nil || f.Key != keyOf(path) {
		return Folder{}, err
	}
	return f, nil
}

// Digests returns the digests of all approvals.
func (f Folder) Digests() map[string]bool {
	digests := make(map[string]bool, len(f.Approvals))
	for _, a := range f.Approvals {
		digests[a.Digest] = true
	}
	return digests
}

// Knows reports whether some version of an entry is approved.
func (f Folder) Knows(kind Kind, name string) bool {
	return slices.ContainsFunc(f.Approvals, func(a Approval) bool { return a.Kind == kind && a.Name == name })
}

// Approve adds approvals for a folder.
func (s *Store) Approve(folder string, approvals []Approval) error {
	if s.dir == "" {
		return ErrNoStore
	}
	path, err := Resolved(folder)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("store the approval: %w", err)
	}
	f, err := read(s.File(folder))
	if err != nil || f.Key != keyOf(path) {
		f = Folder{Path: path, Key: keyOf(path)} // the old file approves nothing
	}
	again := map[string]bool{}
	for _, a := range approvals {
		again[a.Digest] = true
	}
	f.Approvals = slices.DeleteFunc(f.Approvals, func(old Approval) bool { return again[old.Digest] })
	for _, a := range approvals {
		name := printable.Line(a.Name, 0)
		a.Name = strings.ToValidUTF8(name[:min(len(name), maxName)], "")
		f.Approvals = append(f.Approvals, a)
	}
	f.Approvals = f.Approvals[max(0, len(f.Approvals)-maxApprovals):]
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.Replace(s.File(folder), 0o600, text, []byte("\n")); err != nil {
		return fmt.Errorf("store the approval: %w", err)
	}
	return nil
}

// Revoke deletes all approvals for a folder and reports whether there were any.
func (s *Store) Revoke(folder string) (bool, error) {
	file := s.File(folder)
	if file == "" {
		return false, nil
	}
	err := os.Remove(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// List returns all folders with approvals, sorted by path, without the files that cannot be used.
func (s *Store) List() ([]Folder, error) {
	if s.dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []Folder
	for _, e := range entries {
		file := filepath.Join(s.dir, e.Name())
		if f, err := read(file); err == nil && f.Key+".json" == e.Name() {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b Folder) int { return strings.Compare(a.Path, b.Path) })
	return all, err
}

// read reads one file of the store. A missing file has no approvals.
func read(file string) (f Folder, err error) {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err := writable.ByOthers(file, ""); err != nil {
		return f, err
	}
	text, err := secretfile.ReadAll(file)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return Folder{}, fmt.Errorf("%s is damaged; remove it and approve again", file)
	}
	return f, nil
}
