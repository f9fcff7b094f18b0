package filewatch

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// followed runs test on a File with a source of events, in fake time, after the delivery of "first".
func followed(t *testing.T, opts FileOptions, test func(t *testing.T, f *File, s *source, path string)) {
	var s source
	opts.notify = s.notify
	polled(t, opts, func(t *testing.T, f *File, path string) { test(t, f, &s, path) })
}

// TestPauses: a writer with pauses shorter than the quiet period is never seen in parts. One with longer
// pauses is seen in growing parts, and as a whole in the end.
func TestPauses(t *testing.T) {
	for pause, want := range map[time.Duration][]string{
		20 * time.Millisecond: {"01234"}, 300 * time.Millisecond: {"0", "01", "012", "0123", "01234"},
	} {
		followed(t, onlyEvents(), func(t *testing.T, f *File, s *source, path string) {
			var got []string
			for i := range 5 {
				put(t, path, "01234"[:i+1])
				s.event(path)
				time.Sleep(pause)
				synctest.Wait()
				for len(f.Changes()) > 0 {
					got = append(got, string(receive(t, f).Data))
				}
			}
			if len(got) < len(want) {
				got = append(got, string(receive(t, f).Data))
			}
			if !slices.Equal(got, want) {
				t.Errorf("with pauses of %v: %q, want %q", pause, got, want)
			}
			wantSilence(t, f, time.Minute)
		})
	}
}

// TestEndlessWriter: content is delivered even if a writer never pauses.
func TestEndlessWriter(t *testing.T) {
	followed(t, onlyEvents(), func(t *testing.T, f *File, s *source, path string) {
		began, content := time.Now(), "first"
		time.Sleep(time.Millisecond) // no write at the moment of a read, every 100 ms
		for range 135 {
			content += "."
			put(t, path, content)
			s.event(path)
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		if c := receive(t, f); len(c.Data) <= len("first") || len(c.Data) >= len(content) {
			t.Errorf("after %v: %q", time.Since(began), c.Data)
		}
		wantContent(t, f, content)
	})
}

// TestEqualContentIsNotDelivered: saves that do not change the bytes are ignored.
func TestEqualContentIsNotDelivered(t *testing.T) {
	followed(t, onlyEvents(), func(t *testing.T, f *File, s *source, path string) {
		for name, action := range map[string]func() error{
			"touch":              func() error { return os.Chtimes(path, time.Now(), time.Now()) },
			"chmod":              func() error { return os.Chmod(path, 0o600) },
			"same bytes":         func() error { return os.WriteFile(path, []byte("first"), 0) },
			"remove, then again": func() error { must(t, os.Remove(path)); return os.WriteFile(path, []byte("first"), 0o644) },
		} {
			must(t, action())
			s.event(path)
			t.Log(name)
			wantSilence(t, f, time.Minute)
		}
		put(t, path, "other")
		s.event(filepath.Join(filepath.Dir(path), "neighbour"))
		wantSilence(t, f, time.Minute)
		s.event(path)
		wantContent(t, f, "other")
	})
}

// TestMissing: a longer absence is delivered once, watching continues, and its end is delivered even if
// the content is the same as before.
func TestMissing(t *testing.T) {
	followed(t, onlyEvents(), func(t *testing.T, f *File, s *source, path string) {
		for _, removed := range []string{path, filepath.Dir(path)} {
			began := time.Now()
			must(t, os.RemoveAll(removed))
			s.event(removed)
			wantMissing(t, f)
			wantAfter(t, began, 1600*time.Millisecond)
			wantSilence(t, f, time.Minute)
			put(t, path, "first")
			s.event(removed)
			wantContent(t, f, "first")
		}
	})
}

// TestUnreadableFile: a problem is delivered once, and so is its end.
func TestUnreadableFile(t *testing.T) {
	opts := onlyEvents()
	opts.MaxBytes = 5
	followed(t, opts, func(t *testing.T, f *File, s *source, path string) {
		put(t, path, "does not")
		s.event(path)
		if c := receive(t, f); c.Err == nil || c.Data != nil || c.Missing {
			t.Fatalf("got %q (missing %v, err %v), want an error", c.Data, c.Missing, c.Err)
		}
		put(t, path, "still does not")
		s.event(path)
		wantSilence(t, f, time.Minute)
		put(t, path, "first")
		s.event(path)
		wantContent(t, f, "first")
	})
}
