package filewatch

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Without events of the system, a File can run in a synctest bubble: real files, fake time, exact
// expected times.

func noEvents() (*notifier, error) { return nil, syscall.EMFILE }

// polled runs test on a File, in poll mode unless it has a source, after the delivery of "first".
func polled(t *testing.T, opts FileOptions, test func(t *testing.T, f *File, path string)) {
	dir := realDir(t)
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, "conf", "c.json")
		put(t, path, "first")
		if opts.notify == nil {
			opts.notify = noEvents
		}
		f := start(t, path, opts)
		wantContent(t, f, "first")
		test(t, f, path)
	})
}

// wantAfter checks the fake time that passed since began.
func wantAfter(t *testing.T, began time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(began); got != want {
		t.Errorf("after %v, want %v", got, want)
	}
}

func TestPoll(t *testing.T) {
	var log bytes.Buffer
	opts := FileOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	polled(t, opts, func(t *testing.T, f *File, path string) {
		if m := f.Mode(); m.Kind != ModePoll || !strings.Contains(m.Reason, syscall.EMFILE.Error()) {
			t.Errorf("mode %v", m)
		}
		for _, content := range []string{"second", "third"} {
			began := time.Now()
			put(t, path, content)
			c := wantContent(t, f, content)
			wantAfter(t, began, 2*time.Second+100*time.Millisecond) // a poll, and once more to be sure
			if got := c.SeenAt.Sub(began); got != 2*time.Second {
				t.Errorf("seen after %v", got)
			}
		}
		wantSilence(t, f, time.Hour)
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "polling") {
			t.Errorf("%d log lines, want one:\n%s", n, log.String())
		}
	})
}

func TestPollMissing(t *testing.T) {
	polled(t, FileOptions{}, func(t *testing.T, f *File, path string) {
		began := time.Now()
		must(t, os.Remove(path))
		wantMissing(t, f)
		wantAfter(t, began, 2*time.Second+1550*time.Millisecond)
		wantSilence(t, f, time.Minute)
		put(t, path, "first")
		wantContent(t, f, "first")

		began = time.Now()
		must(t, os.Truncate(path, 0))
		wantMissing(t, f)
		if took := time.Since(began); took > 2*time.Second+1550*time.Millisecond {
			t.Errorf("emptied: delivered after %v", took)
		}
		wantSilence(t, f, time.Minute)
		put(t, path, "first")
		wantContent(t, f, "first")

		must(t, os.Remove(path))
		time.Sleep(2 * time.Second) // the poll sees it
		for _, again := range []time.Duration{40, 90, 190, 390, 790} {
			time.Sleep(again * time.Millisecond)
		}
		put(t, path, "first") // 50 ms before the last retry
		wantSilence(t, f, time.Minute)
	})
}

// TestPollDuringSave: a poll in the middle of a save does not deliver it.
func TestPollDuringSave(t *testing.T) {
	polled(t, FileOptions{}, func(t *testing.T, f *File, path string) {
		const content = "0123456789"
		time.Sleep(1800 * time.Millisecond) // polls come at 2100 ms, counted from the start
		for i := range content {
			put(t, path, content[:i+1])
			time.Sleep(60 * time.Millisecond)
		}
		wantContent(t, f, content)
		wantSilence(t, f, time.Minute)
	})
}

// TestPollMaxWait: content that differs at every poll is delivered eventually.
func TestPollMaxWait(t *testing.T) {
	polled(t, FileOptions{}, func(t *testing.T, f *File, path string) {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		must(t, err)
		defer file.Close()
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			time.Sleep(time.Millisecond) // never at the moment of a poll
			for tick := time.Tick(20 * time.Millisecond); ; {
				_, _ = file.WriteString("x")
				select {
				case <-stop:
					return
				case <-tick:
				}
			}
		}()
		c := receive(t, f)
		if got := time.Since(c.SeenAt); got != time.Second {
			t.Errorf("delivered %v after it was seen, want MaxWait", got)
		}
	})
}

func TestBaseline(t *testing.T) {
	polled(t, FileOptions{Baseline: sha256.Sum256([]byte("loaded"))}, func(t *testing.T, f *File, path string) {
		// "first" was delivered: it is not what the consumer had.
		put(t, path, "loaded")
		wantContent(t, f, "loaded")
	})
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, "c.json")
		put(t, path, "loaded")
		f := start(t, path, FileOptions{Baseline: sha256.Sum256([]byte("loaded")), notify: noEvents})
		wantSilence(t, f, time.Minute)
		put(t, path, "second")
		wantContent(t, f, "second")
	})
}

func TestRetryAndKick(t *testing.T) {
	polled(t, FileOptions{}, func(t *testing.T, f *File, path string) {
		f.Kick()
		wantSilence(t, f, time.Minute)

		began := time.Now()
		f.Retry()
		wantContent(t, f, "first") // at the next poll
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("Retry took %v", took)
		}
		wantSilence(t, f, time.Minute) // once

		began = time.Now()
		f.Retry()
		f.Kick()
		wantContent(t, f, "first")
		wantAfter(t, began, 0)

		began = time.Now()
		put(t, path, "second")
		f.Kick()
		wantContent(t, f, "second")
		wantAfter(t, began, 0)
	})
}

// TestLatestWins: a slow consumer gets only the newest state.
func TestLatestWins(t *testing.T) {
	polled(t, FileOptions{}, func(t *testing.T, f *File, path string) {
		for _, content := range []string{"second", "third", "fourth"} {
			put(t, path, content)
			time.Sleep(10 * time.Second)
		}
		wantContent(t, f, "fourth")
		wantSilence(t, f, time.Minute)
	})
}

func TestRunTwice(t *testing.T) {
	polled(t, FileOptions{}, func(t *testing.T, f *File, path string) {
		if err := f.Run(t.Context()); err == nil || errors.Is(err, t.Context().Err()) {
			t.Errorf("second Run: %v", err)
		}
		put(t, path, "second")
		wantContent(t, f, "second") // the first one is unharmed
	})
}

func TestDefaultLimit(t *testing.T) {
	polled(t, FileOptions{}, func(t *testing.T, f *File, path string) {
		put(t, path, strings.Repeat("x", 1<<20))
		if c := receive(t, f); c.Err != nil || len(c.Data) != 1<<20 {
			t.Errorf("1 MiB: %d bytes, err %v", len(c.Data), c.Err)
		}
		put(t, path, strings.Repeat("x", 1<<20+1))
		if c := receive(t, f); c.Err == nil || len(c.Data) != 0 {
			t.Errorf("more than 1 MiB: %d bytes, err %v", len(c.Data), c.Err)
		}
	})
}
