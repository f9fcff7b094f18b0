package vault

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/peertest"
)

// settle is how long a test waits for updates that must not come.
const settle = 600 * time.Millisecond

// listen receives updates for a while.
func (e *recorder) listen(d time.Duration) {
	for over := time.After(d); ; {
		select {
		case <-e.news:
		case <-over:
			return
		}
	}
}

// TestOnlyChangesArePublished edits notes in many ways while everything is subscribed.
func TestOnlyChangesArePublished(t *testing.T) {
	t.Parallel()
	dir := vaultOf(t, map[string]string{
		"a/x/one.md": "# One\n\n#tag", "a/two.md": "# Two", "b/three.md": "# Three", "pic.png": "p",
	})
	opts := quick(dir)
	opts.Quiet = 200 * time.Millisecond // files are written in place, and must not be seen half written
	e := open(t, opts)
	one, two := noteURI("a/x/one.md"), noteURI("a/two.md")
	root, a, ax, b := folderURI(""), folderURI("a"), folderURI("a/x"), folderURI("b")
	path := func(p string) string { return filepath.Join(dir, p) }
	past := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	steps := []struct {
		name string
		do   func() error
		want []string
	}{
		{"text", func() error { return os.WriteFile(path("a/x/one.md"), []byte("# One\n\n#tag more"), 0o644) }, []string{recentURI, one, root, a, ax}},
		{"text by a new file", func() error {
			put(t, path("a/x/save.tmp"), "# One\n\n#tag even more")
			return os.Rename(path("a/x/save.tmp"), path("a/x/one.md"))
		}, []string{recentURI, one, root, a, ax}},
		{"a tag", func() error { return os.WriteFile(path("a/two.md"), []byte("# Two\n#new"), 0o644) }, []string{recentURI, tagsURI, tagsFullURI, two, root, a}},
		{"a new note", func() error { put(t, path("b/four.md"), "# Four"); return nil }, []string{recentURI, statsURI, structureURI, noteURI("b/four.md"), root, b}},
		{"a new picture", func() error { put(t, path("b/pic.png"), "x"); return nil }, []string{statsURI, structureURI, root, b}},
		{"a new folder", func() error { return os.Mkdir(path("empty"), 0o755) }, []string{structureURI, root, folderURI("empty")}},
		{"a note that goes", func() error { return os.Remove(path("b/four.md")) }, []string{recentURI, statsURI, structureURI, noteURI("b/four.md"), root, b}},
		{"a folder that moves", func() error { return os.Rename(path("a"), path("c")) }, []string{
			recentURI, structureURI, one, two, root, a, ax, folderURI("c"), folderURI("c/x"), noteURI("c/x/one.md"), noteURI("c/two.md")}},
		{"the time only", func() error { return os.Chtimes(path("b/three.md"), past, past) }, []string{recentURI, b}},
		{"the same text again", func() error {
			return os.WriteFile(path("b/three.md"), []byte("# Three"), 0o644)
		}, []string{recentURI, b}}, // the time is new
		{"nothing: mode", func() error { return os.Chmod(path("b/three.md"), 0o600) }, nil},
		{"nothing: hidden", func() error { put(t, path(".obsidian/workspace.json"), "{}"); return nil }, nil},
		{"nothing: an editor's", func() error { put(t, path("b/.three.md.swp"), "x"); put(t, path("b/three.md~"), "x"); return nil }, nil},
	}
	for _, step := range steps {
		e.forget()
		must(t, step.do())
		e.waitUpdated(step.want...)
		if step.want == nil {
			e.listen(settle)
		}
		want := strings.Join(step.want, " ") + " "
		for uri := range e.updateCounts() {
			if !strings.Contains(want, uri+" ") {
				t.Errorf("%s: %s was updated", step.name, uri)
			}
		}
		for _, uri := range step.want { // and what is read is new
			if _, err := e.Read(context.Background(), uri); err != nil && !strings.Contains(err.Error(), "not found") {
				t.Errorf("%s: read %s: %v", step.name, uri, err)
			}
		}
	}
	e.wantIndex()
}

// TestReadAfterUpdate: a read after an update always returns the new text.
func TestReadAfterUpdate(t *testing.T) {
	t.Parallel()
	dir := vaultOf(t, map[string]string{"n.md": "0 #t0"})
	opts := quick(dir)
	opts.Spacing = time.Millisecond
	e := open(t, opts)
	for i := 1; i <= 15; i++ {
		e.forget()
		save(t, filepath.Join(dir, "n.md"), fmt.Sprintf("%d #t%d", i, i))
		e.waitUpdated(noteURI("n.md"), recentURI, tagsFullURI)
		tag := fmt.Sprintf("t%d", i)
		if text := e.read(noteURI("n.md")); !strings.HasSuffix(text, tag) {
			t.Errorf("%d: note is %q", i, text)
		}
		if text := e.read(recentURI); !strings.Contains(text, tag) {
			t.Errorf("%d: recent is %s", i, text)
		}
		if text := e.read(tagsFullURI); !strings.Contains(text, `"`+tag+`"`) {
			t.Errorf("%d: tags are %s", i, text)
		}
	}
}

// TestSpellingsAndPagesArePublished: pages of recent and alternative spellings of a
// URI can be subscribed to, and updates have the URI that the client used.
func TestSpellingsAndPagesArePublished(t *testing.T) {
	t.Parallel()
	dir := vaultOf(t, map[string]string{"a b.md": "x", "c.md": "y"})
	uris := []string{
		"vault://recent?limit=1", "vault://recent?mode=full&limit=1", "vault://recent?limit=2&offset=0", "vault://tags?mode=summary",
		"vault://note/a b.md", "vault://note/%61%20b.md", "vault://folder/",
	}
	e := open(t, quick(dir), uris...)
	for _, uri := range uris {
		if !e.Subscribable(uri) {
			t.Errorf("%s cannot be subscribed to", uri)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "a b.md"), []byte("x #new"), 0o644))
	e.waitUpdated(uris...)
	for _, uri := range []string{
		"", "vault://", "vault://nope", "vault://note/nope.md", "vault://note/", "vault://folder/nope", "vault://recent?limit=0", "vault://recent?limit=5&limit=6",
		"vault://stats?mode=full", "vault://note/../a b.md", "vault://note/%2e%2e/x.md", "vault://note/c.md/", "file:///etc/passwd", "vault://note/c.md\n",
	} {
		if e.Subscribable(uri) {
			t.Errorf("%q can be subscribed to", uri)
		}
	}
}

// TestNewFolders: a note written right after its folders were made is found.
func TestNewFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := open(t, quick(dir))
	for i := range 50 {
		put(t, filepath.Join(dir, fmt.Sprint(i), "a", "b", "n.md"), "x")
	}
	e.until("50 notes", func() bool { return strings.Contains(e.read(statsURI), `"noteCount": 50`) })
	e.wantIndex()
}

// TestListUpdates: the list is published only when a note is added, removed or
// retitled.
func TestListUpdates(t *testing.T) {
	t.Parallel()
	dir := vaultOf(t, map[string]string{"n.md": "# One\ntext"})
	e := open(t, quick(dir))
	lists := func() int { e.mu.Lock(); defer e.mu.Unlock(); return len(e.lists) }
	last := func() string { e.mu.Lock(); defer e.mu.Unlock(); return fmt.Sprintf("%s", e.lists[len(e.lists)-1]) }
	e.until("listed", func() bool { return lists() == 1 && strings.Contains(last(), `"title":"One"`) })
	put(t, filepath.Join(dir, "n.md"), "# One\nother text")
	e.waitUpdated(noteURI("n.md"))
	put(t, filepath.Join(dir, "pic.png"), "p")
	e.waitUpdated(structureURI)
	if n := lists(); n != 1 {
		t.Errorf("%d lists", n)
	}
	put(t, filepath.Join(dir, "n.md"), "# Two\nother text")
	e.until("listed", func() bool { return strings.Contains(last(), `"title":"Two"`) })
	put(t, filepath.Join(dir, "m.md"), "")
	e.until("listed", func() bool { return strings.Contains(last(), `vault://note/m.md`) })
}

// TestRealEditors saves with a real editor, twice in each way.
func TestRealEditors(t *testing.T) {
	t.Parallel()
	vim := peertest.Program(t, "vim")
	dir := vaultOf(t, map[string]string{"n.md": "zero"})
	e := open(t, quick(dir))
	for _, option := range []string{"backupcopy=yes", "backupcopy=no", "backupcopy=auto"} {
		for round := range 2 {
			e.forget()
			text := fmt.Sprint(option, " #", "r", round)
			cmd := exec.Command(vim, "-es", "-N", "-u", "NONE", "-i", "NONE", "--cmd", "set backupskip=", "--cmd", "set "+option,
				"-c", "call setline(1, $CONTENT)", "-c", "wq", "n.md")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "CONTENT="+text)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("vim: %v: %s", err, out)
			}
			e.waitUpdated(noteURI("n.md"))
			e.until("new", func() bool { return strings.TrimSpace(e.read(noteURI("n.md"))) == text })
		}
	}
	e.wantIndex()
	for uri, n := range e.updateCounts() {
		if strings.HasPrefix(uri, notePrefix) && uri != noteURI("n.md") {
			t.Errorf("%s was updated %d times", uri, n)
		}
	}
}

// TestPacer: the last change is sent, and none before spacing has passed.
func TestPacer(t *testing.T) {
	began := time.Now()
	p := pacer{spacing: 250 * time.Millisecond}
	var sent []time.Duration
	for at := time.Duration(0); at < 2*time.Second; at += 10 * time.Millisecond {
		if at < time.Second {
			p.add("a")
		}
		if next, ok := p.next(); ok && !next.After(began.Add(at)) {
			if due := p.take(began.Add(at)); len(due) > 0 {
				sent = append(sent, at)
			}
		}
	}
	if got, want := fmt.Sprint(sent), "[0s 250ms 500ms 750ms 1s]"; got != want {
		t.Errorf("sent at %s, want %s", got, want)
	}
	p.take(began.Add(time.Hour))
	if len(p.sent)+len(p.waiting) > 0 {
		t.Errorf("left: %v %v", p.sent, p.waiting)
	}
}

// TestRootReplaced: while the folder is missing the last state stays, and a new folder
// of that name is indexed.
func TestRootReplaced(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "vault")
	put(t, filepath.Join(dir, "old.md"), "old")
	e := open(t, quick(dir))
	must(t, os.Rename(dir, dir+".away"))
	e.listen(settle)
	if text := e.read(statsURI); !strings.Contains(text, `"noteCount": 1`) {
		t.Errorf("while it is away: %s", text)
	}
	if _, err := e.Read(context.Background(), noteURI("old.md")); err != nil && !strings.Contains(err.Error(), "not found") {
		t.Error(err)
	}
	put(t, filepath.Join(dir, "new.md"), "new")
	e.waitUpdated(noteURI("old.md"), noteURI("new.md"), recentURI)
	e.wantIndex()
	must(t, os.RemoveAll(dir))
	must(t, os.Rename(dir+".away", dir))
	e.until("the old one is back", func() bool {
		c, err := e.Read(context.Background(), noteURI("old.md"))
		return err == nil && c.Text == "old"
	})
	e.wantIndex()
}
