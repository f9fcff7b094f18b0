package filewatch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
)

// TestWalk compares the lookups with those expected below a root of links.
func TestWalk(t *testing.T) {
	dir := realDir(t)
	put(t, filepath.Join(dir, "real", "sub", "f"), "x")
	must(t, os.Symlink("real", filepath.Join(dir, "rel")))
	must(t, os.Symlink(filepath.Join(dir, "real", "sub"), filepath.Join(dir, "abs")))
	must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	must(t, os.Symlink("../abs/f", filepath.Join(dir, "real", "link")))
	tests := map[string]struct {
		path string
		want []string // lookups below dir; "@" marks a link
		err  error
	}{
		"plain":            {"real/sub/f", []string{"real", "real/sub", "real/sub/f"}, nil},
		"relative link":    {"rel/sub/f", []string{"rel@", "real", "real/sub", "real/sub/f"}, nil},
		"absolute link":    {"abs/f", []string{"abs@", "real", "real/sub", "real/sub/f"}, nil},
		"link to link":     {"rel/link", []string{"rel@", "real", "real/link@", "abs@", "real", "real/sub", "real/sub/f"}, nil},
		"dot-dot physical": {"abs/../sub/f", []string{"abs@", "real", "real/sub", "real/sub", "real/sub/f"}, nil},
		"absent file":      {"real/no", []string{"real", "real/no"}, fs.ErrNotExist},
		"absent directory": {"no/sub/f", []string{"no"}, fs.ErrNotExist},
		"through a file":   {"real/sub/f/g", []string{"real", "real/sub", "real/sub/f"}, syscall.ENOTDIR},
		"loop":             {"loop/f", slices.Repeat([]string{"loop@"}, maxLinks+1), syscall.ELOOP},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var entered int
			steps, err := walk(dir+"/"+tt.path, func(string, string) { entered++ })
			if !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if entered != len(steps) {
				t.Errorf("entered %d directories for %d lookups", entered, len(steps))
			}
			var got []string
			for _, s := range steps {
				rel, err := filepath.Rel(dir, filepath.Join(s.dir, s.name))
				must(t, err)
				if strings.HasPrefix(dir+"/", s.dir+"/"+s.name+"/") || strings.HasPrefix(rel, "..") {
					continue // the way to dir
				}
				if s.link {
					rel += "@"
				}
				got = append(got, rel)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("lookups (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWalkEntersBeforeLookup(t *testing.T) {
	dir := realDir(t)
	// Every entry is made only when its directory is entered: a lookup before
	// the watch would not find it.
	want := filepath.Join(dir, "a", "b", "c")
	_, err := walk(want, func(d, name string) {
		if path := filepath.Join(d, name); strings.HasPrefix(path, dir+"/") && path != want {
			must(t, os.Mkdir(path, 0o755))
		} else if path == want {
			put(t, path, "x")
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRelevant(t *testing.T) {
	dir := realDir(t)
	put(t, filepath.Join(dir, "conf", "c.json"), "x")
	var s source
	w := pathWatch{target: filepath.Join(dir, "conf", "c.json"), notify: s.notify}
	defer w.drop()
	fresh, reason := w.follow()
	if !fresh || (reason != "" && silentFS(dir) == "") {
		t.Fatalf("first follow: fresh %v, reason %q", fresh, reason)
	}
	if fresh, _ := w.follow(); fresh {
		t.Error("second follow of the same path is fresh")
	}
	top := "/" + strings.SplitN(dir, "/", 3)[1]
	for path, want := range map[string]bool{
		dir + "/conf/c.json":  true,
		dir + "/conf/C.JSON":  true, // the same file where case does not matter
		dir + "/conf":         true,
		dir + "/conf/c.json~": false,
		dir + "/conf/4913":    false,
		dir + "/other":        false,
		dir + "/c.json":       false,
		"/" + top:             true, // as fsnotify spells entries of the root
		top + "/elsewhere":    false,
	} {
		if got := w.relevant(fsnotify.Event{Name: path, Op: fsnotify.Write}); got != want {
			t.Errorf("relevant(%s) = %v, want %v", path, got, want)
		}
	}
}

// TestFollowForgets: no watch remains on a directory that the path left.
func TestFollowForgets(t *testing.T) {
	dir := realDir(t)
	put(t, filepath.Join(dir, "a", "f"), "x")
	put(t, filepath.Join(dir, "b", "f"), "x")
	link := filepath.Join(dir, "link")
	must(t, os.Symlink("a", link))
	kernel := make(map[string]bool)
	w := pathWatch{target: filepath.Join(link, "f"), notify: func() (*notifier, error) {
		return &notifier{
			add:    func(d string) error { kernel[d] = true; return nil },
			remove: func(d string) error { delete(kernel, d); return nil },
			close:  func() error { return nil },
		}, nil
	}}
	w.follow()
	if !kernel[dir] || !kernel[filepath.Join(dir, "a")] {
		t.Fatalf("watches %v", kernel)
	}
	must(t, os.Remove(link))
	must(t, os.Symlink("b", link))
	if fresh, _ := w.follow(); !fresh {
		t.Error("a new directory on the way is not fresh")
	}
	if kernel[filepath.Join(dir, "a")] || !kernel[filepath.Join(dir, "b")] || len(kernel) != len(w.watched) {
		t.Errorf("watches %v, followed %v", kernel, w.watched)
	}
}
