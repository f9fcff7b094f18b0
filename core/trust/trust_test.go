package trust

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

func approve(t *testing.T, s *Store, folder string, digests ...string) {
	t.Helper()
	var all []Approval
	for _, d := range digests {
		all = append(all, Approval{Digest: d, Kind: Server, Name: d, At: time.Now()})
	}
	if err := s.Approve(folder, all); err != nil {
		t.Fatal(err)
	}
}

func approved(t *testing.T, s *Store, folder, digest string) bool {
	t.Helper()
	f, err := s.Approved(folder)
	if err != nil {
		t.Fatal(err)
	}
	if f.Digests()[digest] != f.Knows(Server, digest) { // approve gives both one name
		t.Errorf("%s: %+v", digest, f)
	}
	return f.Digests()[digest]
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	dir, a, b := filepath.Join(t.TempDir(), "deep", "trust"), t.TempDir(), t.TempDir()
	s := New(dir)
	if approved(t, s, a, "x") {
		t.Error("approved without a word")
	}
	approve(t, s, a, "x", "y")
	approve(t, s, a, "z")
	for _, d := range []string{"x", "y", "z"} {
		if !approved(t, New(dir), a, d) {
			t.Errorf("%s is not approved", d)
		}
		if approved(t, s, b, d) || approved(t, s, filepath.Dir(a), d) {
			t.Errorf("%s is approved for another folder", d)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(a, link); err == nil && !approved(t, s, link, "x") {
		t.Error("a link to the folder is another folder")
	}
	approve(t, s, b, "x")
	all, err := s.List()
	if err != nil || len(all) != 2 || len(all[0].Approvals)+len(all[1].Approvals) != 4 {
		t.Errorf("%v, %v", all, err)
	}
	if was, err := s.Revoke(a); !was || err != nil || approved(t, s, a, "x") || !approved(t, s, b, "x") {
		t.Errorf("revoked: %t, %v", was, err)
	}
	if was, err := s.Revoke(a); was || err != nil {
		t.Errorf("revoked again: %t, %v", was, err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, s.File(b): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// A file that others could have written, that is damaged, or that is for another folder approves
// nothing. A new approval replaces it.
func TestFilesThatApproveNothing(t *testing.T) {
	t.Parallel()
	folder, other := t.TempDir(), t.TempDir()
	for name, spoil := range map[string]func(t *testing.T, s *Store) error{
		"others can write": func(t *testing.T, s *Store) error { return os.Chmod(s.File(folder), 0o622) },
		"others can read":  func(t *testing.T, s *Store) error { return os.Chmod(s.File(folder), 0o644) },
		"open folder":      func(t *testing.T, s *Store) error { return os.Chmod(filepath.Dir(s.File(folder)), 0o777) },
		"damaged":          func(t *testing.T, s *Store) error { return os.WriteFile(s.File(folder), []byte(`{"folder":`), 0o600) },
		"empty":            func(t *testing.T, s *Store) error { return os.WriteFile(s.File(folder), nil, 0o600) },
		"of another folder": func(t *testing.T, s *Store) error {
			approve(t, s, other, "x")
			return os.Rename(s.File(other), s.File(folder))
		},
	} {
		if runtime.GOOS == "windows" && name != "damaged" {
			continue
		}
		s := New(filepath.Join(t.TempDir(), "trust"))
		approve(t, s, folder, "x")
		if err := spoil(t, s); err != nil {
			t.Fatal(err)
		}
		if f, _ := s.Approved(folder); len(f.Approvals) > 0 {
			t.Errorf("%s: approves", name)
		}
		if name == "open folder" {
			continue
		}
		approve(t, s, folder, "y")
		if !approved(t, s, folder, "y") || approved(t, s, folder, "x") {
			t.Errorf("%s: not replaced", name)
		}
	}
}

func TestApprovalsAreBounded(t *testing.T) {
	t.Parallel()
	s, folder := New(filepath.Join(t.TempDir(), "trust")), t.TempDir()
	var all []Approval
	for i := range maxApprovals + 10 {
		all = append(all, Approval{Digest: strconv.Itoa(i) + strings.Repeat("0", 66), Kind: Webhook, Name: strings.Repeat("\U000e0001", 1000/(1+i))})
	}
	if err := s.Approve(folder, all); err != nil {
		t.Fatal(err)
	}
	f, err := s.Approved(folder)
	if digests := f.Digests(); len(digests) != maxApprovals || digests["9"+strings.Repeat("0", 66)] || !digests["10"+strings.Repeat("0", 66)] {
		t.Errorf("%d approvals, %v", len(digests), err)
	}
}

func TestNoStore(t *testing.T) {
	t.Parallel()
	s := New("")
	if f, err := s.Approved("/"); len(f.Approvals) != 0 || err != nil {
		t.Error(f, err)
	}
	if err := s.Approve("/", nil); err != ErrNoStore {
		t.Error(err)
	}
	if all, err := s.List(); len(all) != 0 || err != nil {
		t.Error(all, err)
	}
}
