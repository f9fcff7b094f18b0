//go:build unix

package vault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const secret = "SECRET of somebody else"

// hostileVault makes a folder with every known way to escape from it, next to a folder
// with a secret.
func hostileVault(t *testing.T) (dir string) {
	t.Helper()
	base := t.TempDir()
	dir = filepath.Join(base, "vault")
	put(t, filepath.Join(dir, "good.md"), "good")
	put(t, filepath.Join(dir, "sub", "fine.md"), "fine")
	put(t, filepath.Join(dir, ".obsidian", "hidden.md"), secret)
	put(t, filepath.Join(dir, "sub", ".trash", "gone.md"), secret)
	put(t, filepath.Join(base, "vault-evil", "s.md"), secret)
	put(t, filepath.Join(base, "secret.md"), secret)
	link := func(to, name string) { must(t, os.Symlink(to, filepath.Join(dir, name))) }
	link("../secret.md", "relative.md")
	link(filepath.Join(base, "secret.md"), "absolute.md")
	link("..", "up")
	link("../vault-evil", "sibling")
	link("/proc/self/environ", "environ.md")
	link("/proc/self/fd/0", "magic.md")
	link(".obsidian/hidden.md", "inside.md")
	link(".obsidian", "alias")
	link("loop.md", "loop.md")
	link("sub", "sub2")
	must(t, os.Link(filepath.Join(base, "secret.md"), filepath.Join(dir, "hard.md")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "fifo.md"), 0o644))
	socket, err := net.Listen("unix", filepath.Join(dir, "s.md"))
	must(t, err)
	t.Cleanup(func() { socket.Close() })
	must(t, os.WriteFile(filepath.Join(dir, "large.md"), make([]byte, 70<<10), 0o644))
	must(t, os.Mkdir(filepath.Join(dir, "folder.md"), 0o755))
	put(t, filepath.Join(dir, "new\nline.md"), "x")
	put(t, filepath.Join(dir, "latin\xe9.md"), "x")
	put(t, filepath.Join(dir, `back\slash.md`), "x")
	put(t, filepath.Join(dir, `back\folder`, "n.md"), "x")
	return dir
}

// TestNothingOutsideIsServed: no escape is listed, read, searched or counted as a note,
// and no FIFO or device blocks.
func TestNothingOutsideIsServed(t *testing.T) {
	t.Parallel()
	opts := quick(hostileVault(t))
	opts.MaxNoteBytes = 64 << 10
	e := open(t, opts)
	if got := decode[struct{ FileCount, NoteCount int }](e, statsURI); got.NoteCount != 2 || got.FileCount != 2 {
		t.Errorf("stats %+v", got)
	}
	skipped := decode[struct{ Skipped map[string]int }](e, structureURI).Skipped
	want := map[string]int{"symbolic link": 10, "hard link": 1, "not a regular file": 2, "too large": 1, "unprintable name": 4}
	for why, n := range want {
		if skipped[why] != n {
			t.Errorf("%s: %d were left out, want %d", why, skipped[why], n)
		}
	}
	for _, path := range []string{
		"relative.md", "absolute.md", "up/secret.md", "up/vault/good.md", "sibling/s.md", "environ.md", "magic.md", "inside.md", "alias/hidden.md",
		"loop.md", "sub2/fine.md", "hard.md", "fifo.md", "s.md", "large.md", "folder.md", ".obsidian/hidden.md", "sub/.trash/gone.md",
		"../secret.md", "sub/../../secret.md", "/etc/passwd", "../vault-evil/s.md", "good.md/", "relative.md/", "./good.md", "sub//fine.md",
		"..", ".", "", "good.md\x00", "new\nline.md", `sub\fine.md`, "latin\xe9.md", "..%2fsecret.md", "%2e%2e/secret.md", "%252e%252e/secret.md",
	} {
		for _, uri := range []string{notePrefix + path, noteURI(path), folderPrefix + path} {
			c, err := e.Read(context.Background(), uri)
			if path == "" && uri == folderPrefix || path == "folder.md" && strings.HasPrefix(uri, folderPrefix) {
				continue // there are such folders
			}
			if err == nil || strings.Contains(c.Text, secret) {
				t.Errorf("read %q: %q, %v", uri, c.Text, err)
			}
			if err != nil && strings.Contains(err.Error(), e.opts.Dir) {
				t.Errorf("reading %q reveals the path of the vault: %v", uri, err)
			}
			if e.Subscribable(uri) {
				t.Errorf("%q can be subscribed to", uri)
			}
		}
		if n, err := e.ReadNote(t.Context(), path); err == nil && n.Path != "sub/fine.md" && n.Path != "good.md" {
			t.Errorf("read_note %q: %+v", path, n)
		}
	}
	for _, query := range []string{"SECRET", "somebody"} {
		if r, total, err := e.Search(t.Context(), SearchOptions{Query: query}); err != nil || total > 0 {
			t.Errorf("search %q: %+v %v", query, r, err)
		}
	}
	if s := fmt.Sprint(e.picture()); strings.Contains(s, secret) {
		t.Error("the secret is shown somewhere")
	}
}

// TestSkillsStayInside: a skill contains nothing from outside of the vault, however its folder refers to it,
// and no FIFO or device blocks.
func TestSkillsStayInside(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := filepath.Join(base, "vault")
	at := func(path string) string { return filepath.Join(dir, path) }
	put(t, filepath.Join(base, "out", "SKILL.md"), skillMD("out", "license: "+secret))
	put(t, filepath.Join(base, "out", "secret.txt"), secret)
	for _, name := range []string{"good", "parts", "fifo", "link", "hard"} {
		put(t, at(name+"/SKILL.md"), skillMD(name))
		put(t, at(name+"/fine.txt"), "fine")
	}
	for to, name := range map[string]string{
		"../../out/secret.txt": "parts/relative.txt", filepath.Join(base, "out/secret.txt"): "parts/absolute.txt", "loop": "parts/loop",
		"../../out": "parts/folder", "..": "parts/up", "/proc/self/environ": "parts/environ", "fine.txt": "parts/inside.txt", "/dev/zero": "parts/zero",
		"../out": "out",
	} {
		must(t, os.Symlink(to, at(name)))
	}
	must(t, os.Link(filepath.Join(base, "out", "secret.txt"), at("parts/hard.txt")))
	must(t, syscall.Mkfifo(at("parts/fifo"), 0o644))
	for _, name := range []string{"fifo", "link", "hard"} {
		must(t, os.Remove(at(name+"/SKILL.md")))
	}
	must(t, syscall.Mkfifo(at("fifo/SKILL.md"), 0o644))
	must(t, os.Symlink("../../out/SKILL.md", at("link/SKILL.md")))
	must(t, os.Link(filepath.Join(base, "out", "SKILL.md"), at("hard/SKILL.md")))
	e := open(t, quick(dir))
	var served []string
	for _, k := range e.now.Load().skills.list {
		for _, f := range k.Files {
			served = append(served, strings.TrimPrefix(f.URI, skillScheme))
		}
	}
	if got := strings.Join(served, " "); got != "good/SKILL.md good/fine.txt parts/SKILL.md parts/fine.txt" {
		t.Errorf("served %s", got)
	}
	for _, path := range []string{"parts/relative.txt", "parts/absolute.txt", "parts/loop", "parts/folder/secret.txt", "parts/up/good/fine.txt", "parts/inside.txt",
		"parts/hard.txt", "parts/fifo", "parts/../../out/secret.txt", "out/SKILL.md", "out/secret.txt", "link/SKILL.md", "hard/SKILL.md", "fifo/SKILL.md", "fifo/fine.txt"} {
		if c, err := e.Read(t.Context(), skillScheme+path); err == nil || e.Subscribable(skillScheme+path) {
			t.Errorf("%s is served: %+v", path, c)
		}
	}
	if c, err := e.ReadFolder("skill://parts"); err != nil || len(c) != 2 {
		t.Errorf("folder %+v, %v", c, err)
	}
	// A file that is replaced by a link after it was listed is not followed.
	must(t, os.Remove(at("good/fine.txt")))
	must(t, os.Symlink("../../out/secret.txt", at("good/fine.txt")))
	if c, err := e.Read(t.Context(), "skill://good/fine.txt"); err == nil {
		t.Errorf("a link is followed: %+v", c)
	}
	if s := fmt.Sprint(e.picture()); strings.Contains(s, secret) {
		t.Error("the secret is shown somewhere")
	}
}

// TestUnprintableNamesAreSkipped: entries that no URI can address are counted but not
// listed, whether they exist at the start or are added later.
func TestUnprintableNamesAreSkipped(t *testing.T) {
	t.Parallel()
	dir := vaultOf(t, map[string]string{"n.md": "x", `a\b.md`: "x", `c\d/n.md`: "x"})
	e := open(t, quick(dir))
	skipped := func() int {
		return decode[struct{ Skipped map[string]int }](e, structureURI).Skipped[errName.Error()]
	}
	if n := skipped(); n != 2 {
		t.Errorf("%d were left out, want 2", n)
	}
	put(t, filepath.Join(dir, `e\f.md`), "x")
	put(t, filepath.Join(dir, `g\h`, "n.md"), "x")
	put(t, filepath.Join(dir, "line\nfeed.md"), "x")
	must(t, os.WriteFile(filepath.Join(dir, `a\b.md`), []byte("y"), 0o644))
	put(t, filepath.Join(dir, `c\d`, "n.md"), "y")
	e.until("left out", func() bool { return skipped() == 5 })
	e.wantIndex()
	for _, e := range e.now.Load().entries {
		if e.left == nil && checkPath(e.path) != nil {
			t.Errorf("%q is listed and cannot be read", e.path)
		}
	}
	if items := fmt.Sprintf("%s", e.items()); strings.Contains(items, "%5C") {
		t.Errorf("listed: %s", items)
	}
	must(t, os.Rename(filepath.Join(dir, `a\b.md`), filepath.Join(dir, "b.md")))
	e.waitUpdated(noteURI("b.md"))
	e.until("counted no more", func() bool { return skipped() == 4 })
}

// TestConcurrentLinkSwap swaps a note and a folder for links to a secret in a loop
// while the vault is scanned and read: no byte comes from outside.
func TestConcurrentLinkSwap(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := filepath.Join(base, "vault")
	put(t, filepath.Join(base, "out", "n.md"), secret)
	put(t, filepath.Join(dir, "n.md"), "good")
	put(t, filepath.Join(dir, "sub", "n.md"), "good")
	put(t, filepath.Join(dir, ".hidden", "n.md"), secret)
	must(t, os.Symlink("../out/n.md", filepath.Join(dir, ".link")))
	must(t, os.Symlink("../out", filepath.Join(dir, ".dirlink")))
	must(t, os.Symlink(".hidden", filepath.Join(dir, ".inlink")))
	e := open(t, quick(dir))
	var stop atomic.Bool
	var swaps atomic.Int64
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for ; !stop.Load(); swaps.Add(1) {
			for _, pair := range [][2]string{{".link", "n.md"}, {".dirlink", "sub"}, {".inlink", "sub"}} {
				from, to, tmp := filepath.Join(dir, pair[0]), filepath.Join(dir, pair[1]), filepath.Join(dir, ".swap")
				_ = os.Rename(to, tmp)
				_ = os.Rename(from, to)
				_ = os.Rename(to, from)
				_ = os.Rename(tmp, to)
			}
		}
	})
	good := 0
	for deadline := time.Now().Add(patience); (good < 100 || swaps.Load() < 100) && !t.Failed(); {
		if time.Now().After(deadline) {
			t.Fatalf("%d swaps, %d reads", swaps.Load(), good)
		}
		for _, path := range []string{"n.md", "sub/n.md"} {
			src, _, err := e.disk.read(path)
			switch {
			case strings.Contains(string(src), secret):
				t.Errorf("%s gave the secret", path)
			case err == nil:
				good++
			}
		}
	}
	stop.Store(true)
	swapping.Wait()
	e.wantIndex()
	if text := e.read(noteURI("sub/n.md")); text != "good" {
		t.Errorf("after all: %q", text)
	}
}

// TestTemporaryHardLink: a note comes back after a program linked it temporarily, even
// though removing the link gives no event for the note's name.
func TestTemporaryHardLink(t *testing.T) {
	t.Parallel()
	dir := vaultOf(t, map[string]string{"n.md": "one", "other/x.md": "x"})
	e := open(t, quick(dir))
	away := filepath.Join(t.TempDir(), "backup")
	must(t, os.Link(filepath.Join(dir, "n.md"), away))
	must(t, os.WriteFile(filepath.Join(dir, "n.md"), []byte("two"), 0o644))
	e.until("left out", func() bool {
		_, err := e.Read(context.Background(), noteURI("n.md"))
		return errors.Is(err, ErrNotFound)
	})
	must(t, os.Remove(away))
	e.until("back", func() bool {
		c, err := e.Read(context.Background(), noteURI("n.md"))
		return err == nil && c.Text == "two"
	})
	e.wantIndex()
}

// TestMaxEntries: entries beyond MaxEntries are skipped until others are removed.
func TestMaxEntries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 20 {
		put(t, filepath.Join(dir, fmt.Sprintf("n%02d.md", i)), "x")
	}
	opts := quick(dir)
	opts.MaxEntries = 15
	e := open(t, opts)
	got := decode[struct {
		TotalNotes int
		Skipped    map[string]int
	}](e, structureURI)
	if got.TotalNotes != 15 || got.Skipped["too many"] != 5 {
		t.Errorf("%+v", got)
	}
}
