// Package trust stores which entries of configs found in folders the user has approved.
//
// An approval applies to one folder and to the digest of what an entry of a config would run or
// send (see config.Intent). It stops applying when the entry changes, and applies again if the old
// entry is restored, for example by switching branches.
//
// Each folder has its own file, which only the user can read and write. If two processes store
// approvals for the same folder at the same time, one approval may be lost; the user is then asked
// again. A file that is damaged, or that other users could have written, is ignored.
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
	"sort"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/internal/writable"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// Store manages the approvals of one user. Its methods may be called concurrently.
type Store struct{ dir string }

// New returns a store that keeps its files in dir, which is created with the first approval. If dir
// is empty, nothing is approved, and Approve fails with [ErrNoStore].
func New(dir string) *Store { return &Store{dir} }

// ErrNoStore is returned by Approve if no directory for approvals is configured.
var ErrNoStore = errors.New("there is no directory for approvals")

// Approval describes one approved entry.
type Approval struct {
	Digest string `json:"digest"`
	Kind   Kind   `json:"kind"`
	// Name is the name of the server, the origin of the webhook's URL as written in its config, the
	// path of the hook, or the name of the client.
	// It is only displayed; the digest alone decides whether an entry is approved.
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

// Kind is the kind of a config entry.
type Kind string

// The kinds of entries.
const (
	Server  Kind = "server"
	Webhook Kind = "webhook"
	Hook    Kind = "hook"
	Client  Kind = "client"
)

// Folder lists the approvals for one folder.
type Folder struct {
	Path      string     `json:"folder"` // absolute path without symbolic links
	Key       string     `json:"key"`    // digest of the path, which may not be valid UTF-8
	Approvals []Approval `json:"approvals"`
}

// Limits that keep the file of one folder small enough to be read. The oldest approvals are deleted
// first, and long names are truncated.
const (
	maxApprovals = 2000
	maxName      = 128 // bytes
)

// Resolved returns the absolute path of a folder. If the folder exists, symbolic links are
// resolved.
func Resolved(folder string) (string, error) {
	abs, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real, nil
	}
	return abs, nil // the folder was removed; its approvals can still be listed and revoked
}

// File returns the path of the file that stores the approvals for a folder, so that the caller can
// watch it. It returns an empty string if the store has no directory.
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

// Approved returns the approvals for a folder. If it returns an error, it returns no approvals.
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

// Digests returns the set of approved digests.
func (f Folder) Digests() map[string]bool {
	digests := make(map[string]bool, len(f.Approvals))
	for _, a := range f.Approvals {
		digests[a.Digest] = true
	}
	return digests
}

// Knows reports whether any version of the named entry is approved.
func (f Folder) Knows(kind Kind, name string) bool {
	return slices.ContainsFunc(f.Approvals, func(a Approval) bool { return a.Kind == kind && a.Name == name })
}

// Approve stores additional approvals for a folder.
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
		f = Folder{Path: path, Key: keyOf(path)} // the existing file is unusable; replace it
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

// List returns all folders with approvals, sorted by path. It skips unusable files.
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
	sort.Slice(all, func(i, j int) bool { return all[i].Path < all[j].Path })
	return all, err
}

// read parses one file of the store. If the file does not exist, it returns no approvals and no
// error.
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
