package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/printable"
)

// file is a document of one process.
type file struct {
	path string // "": nothing is stored
	what string // name in messages

	mu sync.Mutex // held while writing: what is saved later is newer
}

const (
	fileVersion = 1
	maxFile     = 64 << 20
)

type stored struct {
	Version       int      `json:"version"`
	Holder        string   `json:"holder,omitempty"` // of a page: who loaded it
	Subscriptions []record `json:"subscriptions,omitempty"`
	Webhooks      []mark   `json:"webhooks,omitempty"`
	// Advances are of the subscriptions whose records are on a cluster.
	Advances []advance `json:"advances,omitempty"`
}

func (f *file) load(context.Context) (s stored, err error) {
	if f.path == "" {
		return s, nil
	}
	info, err := os.Lstat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxFile) {
		err = errors.New("the file does not contain " + f.what)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(f.path)
	}
	if err != nil {
		return s, fmt.Errorf("read the %s: %w", f.what, err)
	}
	if json.Unmarshal(data, &s) != nil || s.Version != fileVersion {
		return s, fmt.Errorf("%s is damaged or of a newer version; remove the file to start with none", printable.Line(f.path, 200))
	}
	return s, nil
}

func (f *file) save(_ context.Context, snapshot func() stored) error {
	if f.path == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := snapshot()
	s.Version = fileVersion
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return atomicfile.Write(f.path, 0o600, data)
}
