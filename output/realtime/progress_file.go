package realtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/atomicfile"
)

// maxProgress is the size in bytes above which a file cannot be a progress file.
const maxProgress = 1 << 20

// A ProgressFile keeps the [Progress] of a session for the next run of the program. The zero
// value keeps nothing. Save may be called concurrently.
type ProgressFile struct {
	path  string
	begin Progress

	mu    sync.Mutex // guards the rest, and the file: what is saved later is newer
	saved string     // the content of the file
	last  time.Time  // when the file was last known to be up to date
}

// OpenProgress reads the progress file of the last run, which need not exist.
func OpenProgress(path string) (*ProgressFile, error) {
	f := &ProgressFile{path: path}
	data, err := readProgress(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		return nil, fmt.Errorf("read the progress of the last run: %w", err)
	}
	if err := json.Unmarshal(data, &f.begin); err != nil {
		return nil, fmt.Errorf("%s is damaged; remove the file to begin with new updates", path)
	}
	f.saved = string(data)
	return f, nil
}

func readProgress(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxProgress) {
		return nil, fmt.Errorf("%s is not a progress file", path)
	}
	return os.ReadFile(path)
}

// Begin returns the progress of the last run, the zero value if there was none.
func (f *ProgressFile) Begin() Progress { return f.begin }

// Save writes the progress to the file, with mode 0600, unless it did so less than every ago or
// nothing was handled yet.
func (f *ProgressFile) Save(progress func() Progress, every time.Duration) error {
	if f.path == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.last) < every {
		return nil
	}
	p := progress()
	if p.Cursor == "" {
		return nil
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	f.last = time.Now()
	if string(data) == f.saved {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	if err := atomicfile.Write(f.path, 0o600, data); err != nil {
		return err
	}
	f.saved = string(data)
	return nil
}
