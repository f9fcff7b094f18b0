package commands

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/output/realtime"
)

// cursor stores the progress of a session in a feed, in one file for each pair of them.
// The zero value stores nothing.
type cursor struct {
	path     string
	progress realtime.Progress // of the previous run

	mu    sync.Mutex // guards the rest, and the file: what is saved later is newer
	saved string     // the content of the file
	last  time.Time  // when the file was last known to be up to date
}

// idleSave is the interval of writes while nothing is delivered.
const idleSave = 5 * time.Second

// maxCursor is more than the size of any cursor.
const maxCursor = 1 << 20

// cursor reads the file of the feed and the target. Without a feed there is nothing to
// resume: events of tracked servers have the ids of one run.
func (o *injectOptions) cursor(env *Env) (*cursor, error) {
	c := &cursor{}
	dir := env.stateDir()
	if o.from == "" || dir == "" {
		return c, nil
	}
	// Of the queries only those that identify the conversation: others may change or be
	// secret.
	name := strings.Join([]string{o.feed.address(), o.endpoint.Address(), o.endpoint.Query.Get("call_id"), o.endpoint.Query.Get("model")}, "\x00")
	if agent := o.endpoint.Query.Get("agent_id"); agent != "" {
		name += "\x00" + agent
	}
	sum := sha256.Sum256([]byte(name))
	c.path = filepath.Join(dir, "inject", hex.EncodeToString(sum[:12])+".json")
	data, err := readAtMost(c.path, maxCursor)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, nil
	case err != nil:
		return nil, fmt.Errorf("read the progress of the last run: %w", err)
	}
	if err := json.Unmarshal(data, &c.progress); err != nil {
		return nil, fmt.Errorf("%s is damaged; remove it to begin with new updates", c.path)
	}
	c.saved = string(data)
	return c, nil
}

func readAtMost(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > limit) {
		return nil, fmt.Errorf("%s is not a progress file", path)
	}
	return os.ReadFile(path)
}

// save replaces the file, unless it did so less than every ago.
func (c *cursor) save(progress func() realtime.Progress, every time.Duration) error {
	if c.path == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.last) < every {
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
	c.last = time.Now()
	if string(data) == c.saved {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return err
	}
	if err := atomicfile.Write(c.path, 0o600, data); err != nil {
		return err
	}
	c.saved = string(data)
	return nil
}
