package vault

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// wantIndex waits until the index equals the index of a newly opened vault.
func (e *recorder) wantIndex() {
	e.t.Helper()
	var diff string
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if diff = cmp.Diff(picture(e.t, e.opts), e.picture()); diff == "" {
			return
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("the index is not what is on disk (-disk +index):\n%s", diff)
		}
	}
}

// picture returns the content of all resources but single notes.
func (v *Vault) picture() map[string]string {
	s := v.now.Load()
	shows := make(map[string]string)
	for _, t := range []target{
		{kind: kindRecent, limit: maxLimit}, {kind: kindRecent, limit: 3, offset: 2}, {kind: kindStats},
		{kind: kindTags}, {kind: kindTags, full: true}, {kind: kindStructure}, {kind: kindFolder},
	} {
		c, err := v.Read(context.Background(), t.uri())
		shows[t.uri()] = fmt.Sprint(c, err)
	}
	for _, e := range s.entries {
		switch {
		case e.note != nil:
			to, broken := s.linkTargets(e.note)
			from, _ := s.backlinks(context.Background(), e.path)
			shows[noteURI(e.path)] = fmt.Sprintf("%s %x %q %q %q %q", e.note.item, e.note.digest, e.note.tags, to, broken, from)
		case e.dir:
			c, err := v.Read(context.Background(), folderURI(e.path))
			shows[folderURI(e.path)] = fmt.Sprint(c, err)
		default:
			shows[e.path] = fmt.Sprint(e.size, e.left)
		}
	}
	for _, k := range s.skills.list {
		shows[k.URI] = fmt.Sprintf("%s %s", k.item, k.main)
	}
	return shows
}

// picture returns the picture of a newly opened vault.
func picture(t testing.TB, opts Options) map[string]string {
	t.Helper()
	opts.Logger = nil
	v, err := Open(opts)
	must(t, err)
	defer v.Close()
	scans, _, err := v.scan.scan(t.Context(), []string{""}, newSnapshot())
	must(t, err)
	s, _ := newSnapshot().with(scans)
	u := updater{Vault: v}
	s.skills, _, err = u.findSkills(t.Context(), s, s.skills)
	must(t, err)
	v.now.Store(s)
	return v.picture()
}

// TestIncrementalEqualsFullScan: after any changes to the folder, the index that file
// events updated equals the index of a newly opened vault.
func TestIncrementalEqualsFullScan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		must(t, err)
		for i := range 5 {
			put(t, filepath.Join(dir, fmt.Sprintf("d%d/n%d.md", i%2, i)), fmt.Sprintf("#a [[n%d]]", i+1))
		}
		e := openUntil(t, r.Cleanup, quick(dir))
		name := rapid.SampledFrom([]string{"a.md", "d0/n0.md", "d0/n1.md", "d1/n1.md", "d1/x/n2.md", "pic.png", "d0/pic.png", "d0/.hidden.md", "d0/note~", "d0/SKILL.md", "d1/x/SKILL.md"})
		folders := rapid.SampledFrom([]string{"d0", "d1", "d1/x", "d2", "d2/y"})
		text := rapid.SampledFrom([]string{"", "#a", "#A #b/c", "[[n1]]", "---\ntags: [x, y]\ntitle: T\n---\n[[d1/n1|one]]", "# Head\n#b", "---\nname: d0\ndescription: d\n---", "---\nname: x\ndescription: d\n---"})
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			switch rapid.IntRange(0, 6).Draw(r, "what") {
			case 0, 1:
				put(t, filepath.Join(dir, name.Draw(r, "file")), text.Draw(r, "text"))
			case 2:
				tmp := filepath.Join(dir, "d0", "save.tmp")
				put(t, tmp, text.Draw(r, "text"))
				to := filepath.Join(dir, name.Draw(r, "file"))
				_ = os.MkdirAll(filepath.Dir(to), 0o755)
				_ = os.Rename(tmp, to)
			case 3:
				_ = os.Remove(filepath.Join(dir, name.Draw(r, "file")))
			case 4:
				_ = os.Rename(filepath.Join(dir, folders.Draw(r, "from")), filepath.Join(dir, folders.Draw(r, "to")))
			case 5:
				_ = os.RemoveAll(filepath.Join(dir, folders.Draw(r, "gone")))
			case 6:
				_ = os.MkdirAll(filepath.Join(dir, folders.Draw(r, "new")), 0o755)
			}
		}
		e.wantIndex()
	})
}

// TestPartialScansEqualFullScan: merging partial scans into a snapshot, in any order,
// gives the same snapshot as a full scan.
func TestPartialScansEqualFullScan(t *testing.T) {
	t.Parallel()
	paths := []string{"a", "a-b.md", "a/1.md", "a/2.md", "a/b", "a/b/3.md", "a.md", "c", "c/4.md", "c/x.png"}
	rapid.Check(t, func(r *rapid.T) {
		make1 := func(p string, version int) *entry {
			if !strings.Contains(p, ".") {
				return folder(p)
			}
			e := &entry{path: p, size: int64(version), modified: time.Unix(int64(version), 0)}
			if isNote(p) {
				e.note = &note{path: p, title: p, tags: []string{fmt.Sprint("t", version%3)}, modified: e.modified, digest: [32]byte{byte(version)}}
			}
			return e
		}
		disk := map[string]*entry{}
		s := newSnapshot()
		for step := range rapid.IntRange(1, 8).Draw(r, "steps") {
			at := rapid.SampledFrom(append(paths, "")).Draw(r, "at")
			maps.DeleteFunc(disk, func(p string, _ *entry) bool { return within(p, at) })
			l := scanned{path: at}
			for _, p := range paths {
				if within(p, at) && rapid.Bool().Draw(r, "there") {
					disk[p] = make1(p, step)
					l.entries = append(l.entries, disk[p])
				}
			}
			before := s
			var changes []change
			s, changes = s.with([]scanned{l})
			for _, c := range changes {
				if c.old != before.at(c.path) || c.now != s.at(c.path) {
					r.Fatalf("change of %s is not between the snapshots", c.path)
				}
			}
		}
		var all scanned
		for _, e := range disk {
			all.entries = append(all.entries, e)
		}
		want, _ := newSnapshot().with([]scanned{all})
		if !slices.Equal(want.entries, s.entries) || !slices.Equal(want.recent, s.recent) {
			r.Fatalf("entries or recent notes differ")
		}
		if diff := cmp.Diff(want.tagCounts(), s.tagCounts()); diff != "" {
			r.Fatal(diff)
		}
	})
}

// TestGitCheckout: during a checkout of many notes each resource is updated at most
// four times a second, and the index converges.
func TestGitCheckout(t *testing.T) {
	t.Parallel()
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	dir := t.TempDir()
	git(dir, "init", "-q")
	for _, branch := range []string{"one", "two"} {
		for i := range 200 {
			if branch == "one" || i%3 > 0 {
				put(t, filepath.Join(dir, fmt.Sprintf("d%d/e%d/n%d.md", i%40, i%7, i)), fmt.Sprintf("#%s%d [[n%d]]", branch, i%10, i+1))
			}
		}
		git(dir, "add", "-A")
		git(dir, "commit", "-q", "-m", branch)
		git(dir, "branch", branch)
		must(t, os.RemoveAll(filepath.Join(dir, "d0")))
	}
	e := open(t, Options{Dir: dir})
	e.forget()
	for _, branch := range []string{"one", "two"} {
		git(dir, "checkout", "-q", "-f", branch)
		e.wantIndex()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	last := map[string]time.Time{}
	for _, u := range e.updates {
		if gap := u.at.Sub(last[u.uri]); gap < 200*time.Millisecond { // 250, by the clock of the sender
			t.Errorf("%s was updated again after %v", u.uri, gap)
		}
		last[u.uri] = u.at
	}
	for _, uri := range []string{recentURI, statsURI, tagsURI, structureURI, folderURI(""), folderURI("d1")} {
		if last[uri].IsZero() {
			t.Errorf("%s was not updated", uri)
		}
	}
}
