package journal

import (
	"bytes"
	"context"
	"sync"
)

// recordTable implements [Records] for a log that only one process writes.
type recordTable struct {
	save func(ctx context.Context, rec Record) error
	// writing is a semaphore that serializes writers: a writer sends before it starts, and receives
	// when it is done. The capacity is 1, and the channel is never closed. It is not a mutex
	// because save may wait for the disk, and waiting writers must react to their context.
	writing chan struct{}

	mu    sync.Mutex // guards the fields below
	all   map[string]Record
	last  uint64
	ended bool
	moved chan struct{} // closed and replaced after each write; finally closed by Close
}

// newRecordTable returns a table that contains the saved records. A saved record without a Value
// was removed; it is listed only so that its Revision is never reused. save must make each write
// durable before it returns; a Record without a Value is to be removed.
func newRecordTable(saved []Record, save func(ctx context.Context, rec Record) error) *recordTable {
	t := &recordTable{save: save, writing: make(chan struct{}, 1), all: map[string]Record{}, moved: make(chan struct{})}
	for _, rec := range saved {
		if t.last = max(t.last, rec.Revision); rec.Value != nil {
			t.all[rec.Key] = rec
		}
	}
	return t
}

// Close ends all calls to Follow. It does not wait for them.
func (t *recordTable) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.ended = true
		close(t.moved)
	}
}

func (t *recordTable) Get(_ context.Context, key string) (Record, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return Record{}, ErrClosed
	}
	rec, ok := t.all[key]
	if !ok {
		rec.Key = key
	}
	return rec, nil
}

func (t *recordTable) Put(ctx context.Context, rec Record) (uint64, error) {
	return t.write(ctx, rec, func(now Record, _ uint64) bool { return now.Revision == rec.Revision })
}

func (t *recordTable) PutAfter(ctx context.Context, rec Record, last uint64) (uint64, error) {
	return t.write(ctx, rec, func(_ Record, written uint64) bool { return written == last })
}

func (t *recordTable) Remove(ctx context.Context, rec Record) error {
	_, err := t.write(ctx, Record{Key: rec.Key}, func(now Record, _ uint64) bool { return now.Revision == rec.Revision })
	return err
}

// write stores rec if allowed returns true for the stored record and the number of the last write.
// Otherwise it returns [ErrChanged].
func (t *recordTable) write(ctx context.Context, rec Record, allowed func(now Record, last uint64) bool) (uint64, error) {
	select {
	case t.writing <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { <-t.writing }()
	t.mu.Lock()
	now, last, ended := t.all[rec.Key], t.last, t.ended
	t.mu.Unlock()
	switch {
	case ended:
		return 0, ErrClosed
	case !allowed(now, last):
		return 0, ErrChanged
	}
	rec.Revision, rec.Value = last+1, bytes.Clone(rec.Value)
	if err := t.save(ctx, rec); err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last = rec.Revision; rec.Value == nil {
		delete(t.all, rec.Key)
	} else {
		t.all[rec.Key] = rec
	}
	if !t.ended {
		close(t.moved)
		t.moved = make(chan struct{})
	}
	return rec.Revision, nil
}

// Follow implements [Records]. It passes all records to changed every time.
func (t *recordTable) Follow(ctx context.Context, changed func(Changes)) {
	for ctx.Err() == nil {
		t.mu.Lock()
		c := Changes{All: true, Last: t.last}
		for _, rec := range t.all {
			c.Records = append(c.Records, rec)
		}
		moved, ended := t.moved, t.ended
		t.mu.Unlock()
		if ended {
			return
		}
		changed(c)
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
}

// RecordTables holds the record tables of a log, by name, for a log that only one process writes.
// Its methods are safe for concurrent use.
type RecordTables struct {
	save func(ctx context.Context, name string, rec Record) error

	mu     sync.Mutex // guards the fields below
	saved  map[string][]Record
	open   map[string]*recordTable
	closed bool
}

// NewRecordTables returns tables that contain the records saved earlier. save must make each write
// durable before it returns; a Record without a Value is to be removed.
func NewRecordTables(saved map[string][]Record, save func(ctx context.Context, name string, rec Record) error) *RecordTables {
	return &RecordTables{save: save, saved: saved, open: map[string]*recordTable{}}
}

// Table returns the table with the given name. It creates the table if necessary.
func (t *RecordTables) Table(name string) Records {
	t.mu.Lock()
	defer t.mu.Unlock()
	table, ok := t.open[name]
	if !ok {
		table = newRecordTable(t.saved[name], func(ctx context.Context, rec Record) error { return t.save(ctx, name, rec) })
		delete(t.saved, name)
		if t.open[name] = table; t.closed {
			table.Close()
		}
	}
	return table
}

// Close closes all tables. Tables that are opened later are closed from the start.
func (t *RecordTables) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, table := range t.open {
		table.Close()
	}
}
