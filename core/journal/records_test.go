package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// saved is where a table saves its records.
type saved struct {
	err    error         // of every attempt
	waits  chan struct{} // if not nil, an attempt waits until it is closed
	writes []Record
}

func (s *saved) save(_ context.Context, rec Record) error {
	if s.waits != nil {
		<-s.waits
	}
	if s.err == nil {
		s.writes = append(s.writes, rec)
	}
	return s.err
}

// listed returns records in a readable form.
func listed(records []Record) string {
	var out []string
	for _, rec := range records {
		out = append(out, fmt.Sprintf("%s=%s@%d", rec.Key, rec.Value, rec.Revision))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// A table starts with what was saved, and continues its revisions, even after a removal.
func TestTableContinues(t *testing.T) {
	t.Parallel()
	s := &saved{}
	r := newRecordTable([]Record{{"a", []byte("1"), 4}, {"gone", nil, 9}, {"b", []byte("2"), 7}}, s.save)
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r.Follow(ctx, func(c Changes) {
		cancel()
		if listed(c.Records) != "a=1@4 b=2@7" || !c.All || c.Last != 9 {
			t.Errorf("changes %s, last %d", listed(c.Records), c.Last)
		}
	})
	if rec, err := r.Get(t.Context(), "gone"); err != nil || rec.Revision != 0 || rec.Value != nil {
		t.Errorf("a removed record is %+v, %v", rec, err)
	}
	if rev, err := r.Put(t.Context(), Record{"a", []byte("3"), 4}); err != nil || rev != 10 {
		t.Errorf("the next revision is %d, %v", rev, err)
	}
	if err := r.Remove(t.Context(), Record{Key: "b", Revision: 7}); err != nil {
		t.Error(err)
	}
	if rev, err := r.PutAfter(t.Context(), Record{Key: "c", Value: []byte("4")}, 11); err != nil || rev != 12 {
		t.Errorf("the next revision is %d, %v", rev, err)
	}
	if got := listed(s.writes); got != "a=3@10 b=@11 c=4@12" {
		t.Errorf("saved %s", got)
	}
}

// What could not be saved does not count, and nobody sees it.
func TestTableDoesNotCountWhatIsNotSaved(t *testing.T) {
	t.Parallel()
	s := &saved{err: errors.New("disk full")}
	r := newRecordTable([]Record{{"a", []byte("1"), 1}}, s.save)
	defer r.Close()
	for what, write := range map[string]func() error{
		"Put":      func() error { _, err := r.Put(t.Context(), Record{"a", []byte("2"), 1}); return err },
		"PutAfter": func() error { _, err := r.PutAfter(t.Context(), Record{"b", []byte("2"), 0}, 1); return err },
		"Remove":   func() error { return r.Remove(t.Context(), Record{"a", nil, 1}) },
	} {
		if err := write(); !errors.Is(err, s.err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if rec, err := r.Get(t.Context(), "a"); err != nil || string(rec.Value) != "1" || rec.Revision != 1 {
		t.Errorf("the record is %+v, %v", rec, err)
	}
	s.err = nil
	if rev, err := r.Put(t.Context(), Record{"a", []byte("2"), 1}); err != nil || rev != 2 {
		t.Errorf("then the revision is %d, %v", rev, err)
	}
	// A write with a wrong revision is not saved.
	if _, err := r.Put(t.Context(), Record{"a", []byte("3"), 1}); !errors.Is(err, ErrChanged) || len(s.writes) != 1 {
		t.Errorf("a late write: %v, saved %s", err, listed(s.writes))
	}
}

// While a write waits for the disk, nobody sees it, reading does not wait, and other writers wait
// only as long as their context.
func TestTableWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &saved{waits: make(chan struct{})}
		r := newRecordTable(nil, s.save)
		defer r.Close()
		written := make(chan error, 1)
		go func() {
			_, err := r.Put(t.Context(), Record{Key: "a", Value: []byte("1")})
			written <- err
		}()
		synctest.Wait()
		if rec, err := r.Get(t.Context(), "a"); err != nil || rec.Value != nil {
			t.Errorf("seen before it was saved: %+v, %v", rec, err)
		}
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if _, err := r.Put(ctx, Record{Key: "b", Value: []byte("1")}); !errors.Is(err, cause) {
			t.Errorf("a second write: %v", err)
		}
		close(s.waits)
		if err := <-written; err != nil {
			t.Error(err)
		}
		if rec, err := r.Get(t.Context(), "a"); err != nil || string(rec.Value) != "1" {
			t.Errorf("the record is %+v, %v", rec, err)
		}
	})
}

// The table owns the value: later changes by its writer have no effect.
func TestTableOwnsItsValues(t *testing.T) {
	t.Parallel()
	s, value := &saved{}, []byte("1")
	r := newRecordTable(nil, s.save)
	defer r.Close()
	if _, err := r.Put(t.Context(), Record{Key: "a", Value: value}); err != nil {
		t.Fatal(err)
	}
	value[0] = 'x'
	if rec, err := r.Get(t.Context(), "a"); err != nil || string(rec.Value) != "1" || listed(s.writes) != "a=1@1" {
		t.Errorf("the record is %+v, %v, saved %s", rec, err, listed(s.writes))
	}
	empty, err := r.Put(t.Context(), Record{Key: "empty", Value: []byte{}})
	if err != nil {
		t.Fatal(err)
	}
	if rec, err := r.Get(t.Context(), "empty"); err != nil || rec.Value == nil || rec.Revision != empty {
		t.Errorf("an empty value is %+v, %v", rec, err)
	}
}

// Follow calls changed after every write, and ends with the table.
func TestTableIsFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecordTable(nil, new(saved).save)
		var seen []string
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.Follow(t.Context(), func(c Changes) {
				if seen = append(seen, listed(c.Records)); len(seen) == 2 { // more comes during the call
					_, _ = r.Put(t.Context(), Record{Key: "b", Value: []byte("2")})
				}
			})
		}()
		synctest.Wait()
		rev, err := r.Put(t.Context(), Record{Key: "a", Value: []byte("1")})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := r.Remove(t.Context(), Record{Key: "a", Revision: rev}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.Close()
		r.Close()
		<-ended
		if want := []string{"", "a=1@1", "a=1@1 b=2@2", "b=2@2"}; !slices.Equal(seen, want) {
			t.Errorf("seen %q, want %q", seen, want)
		}
		r.Follow(t.Context(), func(Changes) { t.Error("called after Close") })
		for _, err := range []error{
			func() error { _, err := r.Get(t.Context(), "b"); return err }(),
			func() error { _, err := r.Put(t.Context(), Record{Key: "c", Value: []byte("3")}); return err }(),
			r.Remove(t.Context(), Record{Key: "b", Revision: 2}),
		} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		}
	})
}
