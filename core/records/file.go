package records

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/printable"
)

var _ Store = (*File)(nil)

// File is a [Store] in a JSON file that only its owner can read. Each write replaces the file, and is
// on disk when it returns, so nothing of a removed record remains. Only one process may use the file,
// with a single File. Revisions begin again when the file is opened.
type File struct {
	path string
	// writing is a semaphore that serializes writers: a writer sends before it starts, and receives
	// when it is done. The capacity is 1, and the channel is never closed. It is not a mutex
	// because writers wait for the disk, and waiting writers must react to their context.
	writing chan struct{}

	mu    sync.Mutex        // guards the fields below; not held during I/O
	all   map[string]Record // replaced, never modified
	last  uint64
	moved chan struct{} // closed and replaced after each write
}

// content is the content of the file.
type content struct {
	Version int                        `json:"version"`
	Records map[string]json.RawMessage `json:"records"`
}

const version = 1

// Open opens the file at path. It is created by the first write, in an existing directory. If path is
// empty, the records are in memory only.
func Open(path string) (*File, error) {
	f := &File{path: path, writing: make(chan struct{}, 1), all: map[string]Record{}, moved: make(chan struct{})}
	if path == "" {
		return f, nil
	}
	atomicfile.Sweep(filepath.Dir(path), time.Now().Add(-time.Minute)) // other programs may be writing
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	var c content
	if json.Unmarshal(data, &c) != nil || c.Version != version {
		return nil, fmt.Errorf("%s is damaged or was written by a newer mcptrack; restore it from a backup, or remove it to start without subscriptions", printable.Line(path, 256))
	}
	for key, value := range c.Records {
		f.last++
		f.all[key] = Record{key, value, f.last}
	}
	return f, nil
}

// Write writes the file of a File that has these values by key, in place of the file that is there. No File
// may be open. Values that are not JSON are left out.
func Write(path string, values map[string][]byte) error {
	all := map[string]Record{}
	for key, value := range values {
		if json.Valid(value) {
			all[key] = Record{Key: key, Value: value}
		}
	}
	data, err := encode(all)
	if err != nil {
		return err
	}
	return atomicfile.Replace(path, 0o600, data)
}

func encode(all map[string]Record) ([]byte, error) {
	c := content{version, map[string]json.RawMessage{}}
	for key, rec := range all {
		c.Records[key] = rec.Value
	}
	return json.Marshal(c)
}

func (f *File) Get(_ context.Context, key string) (Record, error) {
	all, _, _ := f.now()
	rec := all[key]
	rec.Key = key
	return rec, nil
}

func (f *File) now() (all map[string]Record, last uint64, moved chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all, f.last, f.moved
}

func (f *File) Put(ctx context.Context, rec Record) (uint64, error) {
	rec.Value = bytes.Clone(rec.Value)
	return f.write(ctx, rec)
}

func (f *File) Remove(ctx context.Context, rec Record) error {
	rec.Value = nil
	_, err := f.write(ctx, rec)
	return err
}

// write stores rec, or removes it if it has no value.
func (f *File) write(ctx context.Context, rec Record) (uint64, error) {
	select {
	case f.writing <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { <-f.writing }()
	all, last, moved := f.now()
	if all[rec.Key].Revision != rec.Revision {
		return 0, ErrChanged
	}
	all = maps.Clone(all)
	rec.Revision = last + 1
	if all[rec.Key] = rec; rec.Value == nil {
		delete(all, rec.Key)
	}
	if f.path != "" {
		data, err := encode(all)
		if err == nil {
			err = atomicfile.Replace(f.path, 0o600, data)
		}
		if err != nil {
			return 0, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all, f.last, f.moved = all, rec.Revision, make(chan struct{})
	close(moved)
	return rec.Revision, nil
}

// Follow implements [Store]. It passes all records to changed every time.
func (f *File) Follow(ctx context.Context, changed func(Changes)) {
	for ctx.Err() == nil {
		all, last, moved := f.now()
		changed(Changes{Records: slices.Collect(maps.Values(all)), All: true, Last: last})
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
}
