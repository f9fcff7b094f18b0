package filewatch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeSlowly truncates path and writes content in parts, each after a pause. It
// returns the longest time between two writes.
func writeSlowly(path, content string, parts int, pause time.Duration) (longest time.Duration, err error) {
	file, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	last := time.Now()
	for i := range parts {
		time.Sleep(pause) // the writer under test, not a wait for a result
		if _, err := file.WriteString(content[len(content)*i/parts : len(content)*(i+1)/parts]); err != nil {
			return 0, err
		}
		longest = max(longest, time.Since(last))
		last = time.Now()
	}
	return longest, nil
}

// TestPausesShorterThanQuiet: a writer with short pauses is never seen in parts.
func TestPausesShorterThanQuiet(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.json")
	put(t, path, "first")
	f := start(t, path, onlyEvents())
	wantContent(t, f, "first")
	for i, valid := 0, 0; valid < 3; i++ {
		if i == 20 {
			t.Skip("this machine is too busy to write every 20 ms")
		}
		content := strings.Repeat(string(rune('a'+i)), 500)
		longest, err := writeSlowly(path, content, 5, 20*time.Millisecond)
		must(t, err)
		if longest < 90*time.Millisecond {
			wantContent(t, f, content)
			valid++
			continue
		}
		for string(receive(t, f).Data) != content { // parts may show
		}
	}
	wantSilence(t, f, 200*time.Millisecond)
}

// TestPausesLongerThanQuiet: a writer with long pauses is seen in growing parts, and
// as a whole in the end.
func TestPausesLongerThanQuiet(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.json")
	put(t, path, "first")
	f := start(t, path, onlyEvents())
	wantContent(t, f, "first")
	const content = "0123456789"
	wrote := make(chan error, 1)
	go func() {
		_, err := writeSlowly(path, content, len(content), 300*time.Millisecond)
		wrote <- err
	}()
	for seen := ""; seen != content; {
		c := receive(t, f)
		if c.Missing || c.Err != nil || len(c.Data) <= len(seen) || !strings.HasPrefix(content, string(c.Data)) {
			t.Fatalf("after %q: %q (missing %v, err %v)", seen, c.Data, c.Missing, c.Err)
		}
		seen = string(c.Data)
	}
	must(t, <-wrote)
	wantSilence(t, f, 200*time.Millisecond)
}

// TestEndlessWriter: content is delivered even if a writer never pauses.
func TestEndlessWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.json")
	put(t, path, "first")
	f := start(t, path, onlyEvents())
	wantContent(t, f, "first")
	wrote := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		for err == nil {
			select {
			case <-stop:
				err = file.Close()
				wrote <- err
				return
			case <-time.After(10 * time.Millisecond):
				_, err = file.WriteString(".")
			}
		}
		wrote <- err
	}()
	for range 2 {
		if c := receive(t, f); !strings.HasPrefix(string(c.Data), "first.") {
			t.Errorf("got %q (missing %v, err %v)", c.Data, c.Missing, c.Err)
		}
	}
	close(stop)
	must(t, <-wrote)
	put(t, path, "end")
	for string(receive(t, f).Data) != "end" {
	}
}

// TestEqualContentIsNotDelivered: saves that do not change the bytes are ignored.
func TestEqualContentIsNotDelivered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "c.json")
	put(t, path, "same")
	f := start(t, path, onlyEvents())
	wantContent(t, f, "same")
	tests := map[string]func() error{
		"touch":              func() error { return os.Chtimes(path, time.Now(), time.Now()) },
		"chmod":              func() error { return os.Chmod(path, 0o600) },
		"same bytes":         func() error { return os.WriteFile(path, []byte("same"), 0) },
		"neighbour":          func() error { return os.WriteFile(filepath.Join(dir, "other"), []byte("x"), 0o644) },
		"remove, then again": func() error { must(t, os.Remove(path)); return os.WriteFile(path, []byte("same"), 0o644) },
	}
	for name, action := range tests {
		must(t, action())
		t.Log(name)
		wantSilence(t, f, 200*time.Millisecond)
	}
	put(t, path, "other") // the silence was not deafness
	wantContent(t, f, "other")
}

// TestMissing: a longer absence is delivered once, watching continues, and its end is
// delivered even if the content is the same as before.
func TestMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "conf", "c.json")
	put(t, path, "same")
	f := start(t, path, onlyEvents())
	wantContent(t, f, "same")
	for name, action := range map[string]func() error{
		"removed":           func() error { return os.Remove(path) },
		"directory removed": func() error { return os.RemoveAll(filepath.Dir(path)) },
	} {
		began := time.Now()
		must(t, action())
		wantMissing(t, f)
		if took := time.Since(began); took < 1550*time.Millisecond {
			t.Errorf("%s: taken for missing after %v", name, took)
		}
		put(t, path, "same")
		wantContent(t, f, "same")
	}
	wantSilence(t, f, 200*time.Millisecond)
}

// TestUnreadableFile: a problem is delivered once, and so is its end.
func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.json")
	put(t, path, "fits")
	opts := onlyEvents()
	opts.MaxBytes = 4
	f := start(t, path, opts)
	wantContent(t, f, "fits")
	put(t, path, "does not")
	if c := receive(t, f); c.Err == nil || c.Data != nil || c.Missing {
		t.Fatalf("got %q (missing %v, err %v), want an error", c.Data, c.Missing, c.Err)
	}
	put(t, path, "still does not")
	wantSilence(t, f, 200*time.Millisecond)
	put(t, path, "fits")
	wantContent(t, f, "fits")
}
