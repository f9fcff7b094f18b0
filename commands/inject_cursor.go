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

	"github.com/mcptrack/mcptrack/output/realtime"
)

// cursor keeps how far a session is in a feed, in a file for the two of them. The
// zero value keeps nothing.
type cursor struct {
	path     string
	progress realtime.Progress // of the former run

	mu    sync.Mutex // guards the rest, and the file: what is saved later is newer
	saved string     // what the file has
	last  time.Time  // when it was last found or made up to date
}

// idleSave is how often the file is written while nothing is delivered.
const idleSave = 5 * time.Second

// maxCursor is more than a cursor with all the ids that there may be takes.
const maxCursor = 1 << 20

// cursor reads the file of the feed and the target. Without a feed there is
// nothing to go on with: events of the config have the ids of one run.
func (o *injectOptions) cursor(env *Env) (*cursor, error) {
	c := &cursor{}
	dir := env.stateDir()
	if o.from == "" || dir == "" {
		return c, nil
	}
	// Of the queries only what names the conversation: others may change or be secret.
	name := strings.Join([]string{o.feed.address(), o.endpoint.Address(), o.endpoint.Query.Get("call_id"), o.endpoint.Query.Get("model")}, "\x00")
	sum := sha256.Sum256([]byte(name))
	c.path = filepath.Join(dir, "inject", hex.EncodeToString(sum[:12])+".json")
	data, err := readAtMost(c.path, maxCursor)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, nil
	case err != nil:
		return nil, fmt.Errorf("read how far the last run came: %w", err)
	}
	if err := json.Unmarshal(data, &c.progress); err != nil {
		return nil, fmt.Errorf("%s is damaged (remove it to begin with what comes now): %w", c.path, err)
	}
	c.saved = string(data)
	return c, nil
}

func readAtMost(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > limit) {
		return nil, fmt.Errorf("%s is no file of ours", path)
	}
	return os.ReadFile(path)
}

// save puts the file in place as a whole, so that a crash leaves the old one or the
// new one. It does nothing if it did so less than every ago.
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
	if err := replaceFile(c.path, data); err != nil {
		return err
	}
	c.saved = string(data)
	return nil
}

// replaceFile writes a file of mode 0600 beside the old one and puts it in its
// place.
func replaceFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
