package connect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/gofrs/flock"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/config/edit"
	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// A record contains what is needed to undo the edits of one file of a host. It contains the
// original entries with their secrets, so only the user can read it.
type record struct {
	File    string      `json:"file"` // absolute path
	Host    string      `json:"host"`
	Format  tree.Format `json:"format"`
	Entries []recorded  `json:"entries"`
}

// A recorded is one edited entry.
type recorded struct {
	Name   string    `json:"name"` // of the server in the host's config
	Path   []string  `json:"path"`
	Edit   edit.Edit `json:"edit"`
	Config string    `json:"config"` // mcptrack's config that has the original
	ID     string    `json:"id"`     // of the server there
	// Added is the digest of the server that connect added to the config; empty if the config had
	// it already. Created means that connect created the config.
	Added   string `json:"added,omitempty"`
	Created bool   `json:"created,omitempty"`
}

// A store keeps one file for each record in a folder.
type store struct{ dir string }

// openStore opens the records of connected files. Unless the run writes nothing, other runs wait until unlock
// is called.
func openStore(ctx context.Context, env *cli.Env, dryRun bool) (s store, unlock func(), err error) {
	if s.dir = env.StateDir("connect"); s.dir == "" {
		return s, nil, &cli.Failure{Exit: cli.ExitFailed, Code: "failed", Err: errors.New("there is no home folder for the records that --undo needs"), Hint: "set HOME or XDG_STATE_HOME"}
	}
	if dryRun {
		return s, func() {}, nil
	}
	unlock, err = s.lock(ctx)
	return s, unlock, err
}

// lock makes other runs wait until unlock is called.
func (s store) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(s.dir), 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(s.dir+".lock", flock.SetPermissions(0o600))
	waiting, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	if _, err := lock.TryLockContext(waiting, 20*time.Millisecond); err != nil {
		if ctx.Err() == nil && waiting.Err() != nil {
			err = &cli.Failure{Exit: cli.ExitFailed, Code: "busy", Err: errors.New("another mcptrack connect has been running for a minute"), Hint: "run the command again when it has ended"}
		}
		return nil, err
	}
	return func() { _ = lock.Unlock() }, nil // the file stays, because another process may wait for it
}

// maxWait limits how long a run waits for others.
const maxWait = time.Minute

func (s store) path(file string) string {
	sum := sha256.Sum256([]byte(file))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16])+".json")
}

// all returns all records, sorted by file.
func (s store) all() ([]record, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var all []record
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		if filepath.Ext(path) != ".json" {
			continue
		}
		text, err := secretfile.Load(path, maxRecord, 0o077)
		if err != nil {
			return nil, err
		}
		var r record
		if err := json.Unmarshal(text, &r); err != nil || s.path(r.File) != path {
			return nil, fmt.Errorf("%s is damaged; the host's file has a backup beside it (*%s)", printable.Line(path, 200), backupSuffix)
		}
		all = append(all, r)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].File < all[j].File })
	return all, nil
}

// maxRecord is the maximum size of a record in bytes.
const maxRecord = 32 << 20

// put stores a record; a record without entries is removed.
func (s store) put(r record) error {
	if len(r.Entries) == 0 {
		err := os.Remove(s.path(r.File))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return atomicfile.Replace(s.path(r.File), 0o600, text, []byte("\n"))
}

// backupSuffix is added to the name of a host's file for its backup.
const backupSuffix = ".mcptrack-backup"
