package filewatch

import (
	"errors"
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
	var log logged
	polled(t, FileOptions{Logger: log.logger()}, func(t *testing.T, f *File, path string) {
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
		log.want(t, 1, syscall.EMFILE.Error())
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
