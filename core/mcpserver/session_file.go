package mcpserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/internal/fair"
	"github.com/mcptrack/mcptrack/core/mcp"
)

const (
	// sessionRetention is how long an unused session is stored.
	sessionRetention = 7 * 24 * time.Hour
	// touchEvery is the least interval between two writes of the time of last use.
	touchEvery = time.Hour
	// maxSessionFile bounds the file of a session. A session that needs more is not stored.
	maxSessionFile = 4 << 20
	// sessionFileSlack is how much larger than twice its current content a file may become.
	sessionFileSlack = 64 << 10
)

// sessionDir stores sessions in a directory, each in a file of its own, so that they outlive the
// server. Several servers may use the same directory. A nil *sessionDir stores none.
//
// A file name consists of digests of the principal and the session id: reading the directory is
// not enough to use the sessions.
type sessionDir struct {
	dir    string
	logger *slog.Logger

	warned sync.Once

	mu   sync.Mutex
	away map[string]time.Time // when the sessions that are not in memory were last used, by file
	room fair.Limit           // for the sessions in away, by the digest of the principal
}

// sessionRecord is a line in the file of a session: the first line describes the session, later
// lines its changes.
type sessionRecord struct {
	// Version is the protocol version, only in the first line.
	Version      string            `json:"version,omitempty"`
	Capabilities json.RawMessage   `json:"capabilities,omitempty"`
	Memory       json.RawMessage   `json:"memory,omitempty"` // of Client.Remember
	Seen         map[string]string `json:"seen,omitempty"`   // digests of lists, by method
	Add          string            `json:"add,omitempty"`    // a URI that the client subscribed to
	Remove       string            `json:"remove,omitempty"`
}

// storedSession is the content of a file.
type storedSession struct {
	version              string
	capabilities, memory json.RawMessage
	seen                 map[string]string
	uris                 map[string]struct{}
}

// openSessionDir opens a directory, which it creates if necessary, for at most limit sessions that
// are not in memory. It returns nil if that fails.
func openSessionDir(dir string, limit int, logger *slog.Logger) *sessionDir {
	k := &sessionDir{dir: dir, logger: logger, away: map[string]time.Time{}, room: fair.Limit{Max: limit}}
	err := os.MkdirAll(dir, 0o700)
	var files []fs.DirEntry
	if err == nil {
		files, err = os.ReadDir(dir)
	}
	if err != nil {
		logger.Warn("clients must connect again after a restart because their sessions cannot be stored", "err", err)
		return nil
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil && strings.HasSuffix(f.Name(), sessionSuffix) {
			for _, name := range k.setAway(f.Name(), info.ModTime()) {
				_ = os.Remove(filepath.Join(dir, name)) // another server may have done it
			}
		}
	}
	return k
}

const sessionSuffix = ".session"

func sessionFileName(principal, id string) string {
	return nameDigest(principal) + "-" + nameDigest(id) + sessionSuffix
}

func nameDigest(s string) string {
	d := sha256.Sum256([]byte(s))
	return hex.EncodeToString(d[:16])
}

// setAway records that a session is not in memory, and returns the files to remove: those that are
// too old, and the oldest of the principal beyond the limit.
func (k *sessionDir) setAway(name string, used time.Time) (gone []string) {
	principal, _, _ := strings.Cut(name, "-")
	k.mu.Lock()
	defer k.mu.Unlock()
	k.back(name)
	if time.Since(used) > sessionRetention {
		return []string{name}
	}
	for !k.room.Take(principal) {
		oldest := ""
		for other, at := range k.away {
			if strings.HasPrefix(other, principal+"-") && (oldest == "" || at.Before(k.away[oldest])) {
				oldest = other
			}
		}
		if oldest == "" || used.Before(k.away[oldest]) {
			return append(gone, name)
		}
		k.back(oldest)
		gone = append(gone, oldest)
	}
	k.away[name] = used
	return gone
}

// back undoes setAway. k.mu must be held.
func (k *sessionDir) back(name string) {
	if _, ok := k.away[name]; ok {
		principal, _, _ := strings.Cut(name, "-")
		k.room.Give(principal)
		delete(k.away, name)
	}
}

// create stores a new session; it returns nil if that is not possible.
func (k *sessionDir) create(ss *session) *sessionFile {
	if k == nil {
		return nil
	}
	f := &sessionFile{of: k, path: filepath.Join(k.dir, sessionFileName(ss.principal, ss.id)), touched: time.Now()}
	data, err := f.content(ss.records())
	if err == nil {
		err = os.MkdirAll(k.dir, 0o700) // the directory may have been removed
	}
	if err == nil { // no fsync: it must survive the process, but not the machine
		err = os.WriteFile(f.path, data, 0o600)
	}
	f.giveUp(err)
	if f.gone {
		return nil
	}
	return f
}

// park records that a session has left memory, so that its file expires.
func (k *sessionDir) park(f *sessionFile) {
	if k == nil || !f.used() {
		return
	}
	for _, name := range k.setAway(filepath.Base(f.path), time.Now()) {
		_ = os.Remove(filepath.Join(k.dir, name)) // another server may have done it
	}
}

// take returns the session with that id of the principal; a nil file if there is none.
func (k *sessionDir) take(id, principal string) (*sessionFile, *storedSession) {
	if k == nil || id == "" {
		return nil, nil
	}
	name := sessionFileName(principal, id)
	f := &sessionFile{of: k, path: filepath.Join(k.dir, name), touched: time.Now()}
	was, err := f.read()
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			k.warn("a client must connect again because its session cannot be read", err)
		}
		return nil, nil
	}
	k.mu.Lock()
	k.back(name)
	k.mu.Unlock()
	f.used()
	return f, was
}

// warn logs only the first failure: clients could cause any number.
func (k *sessionDir) warn(what string, err error) {
	k.warned.Do(func() { k.logger.Warn(what, "err", err) })
}

// sessionFile is the file of one session that is in memory. A nil *sessionFile stores nothing.
type sessionFile struct {
	of   *sessionDir
	path string

	// mu orders writes. Only requests of one session wait for each other.
	mu          sync.Mutex
	size, small int // bytes of the file, now and when it was last rewritten
	touched     time.Time
	gone        bool // the session has ended, or can no longer be stored
}

// add appends a line. If the file has become too large, it is rewritten with all instead.
func (f *sessionFile) add(line sessionRecord, all func() []sessionRecord) {
	if f == nil {
		return
	}
	data := append(encode(line), '\n')
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return
	}
	if f.size+len(data) > 2*f.small+sessionFileSlack {
		data, err := f.content(all()) // includes the line
		if err == nil {
			err = atomicfile.Replace(f.path, 0o600, data)
		}
		f.giveUp(err)
		return
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = file.Write(data)
		err = errors.Join(err, file.Close())
	}
	f.size += len(data)
	f.giveUp(err)
}

// content encodes the whole file. f.mu must be held.
func (f *sessionFile) content(lines []sessionRecord) ([]byte, error) {
	var b bytes.Buffer
	for _, line := range lines {
		b.Write(encode(line))
		b.WriteByte('\n')
	}
	f.size, f.small = b.Len(), b.Len()
	if b.Len() > maxSessionFile {
		return nil, fmt.Errorf("it needs more than %d bytes", maxSessionFile)
	}
	return b.Bytes(), nil
}

// giveUp removes the file after an error, because stored state must not be outdated. f.mu must be
// held.
func (f *sessionFile) giveUp(err error) {
	if err != nil {
		f.gone = true
		_ = os.Remove(f.path) // if this fails as well, nothing can be done
		f.of.warn("a client must connect again after a restart because its session cannot be stored", err)
	}
}

// remove removes the file permanently.
func (f *sessionFile) remove() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = true
	_ = os.Remove(f.path) // it may already be gone
}

// touch occasionally writes the time of last use.
func (f *sessionFile) touch() {
	if f == nil {
		return
	}
	f.mu.Lock()
	due := time.Since(f.touched) > touchEvery
	f.mu.Unlock()
	if due {
		f.used()
	}
}

// used writes the time of last use; it reports false if the session is not stored.
func (f *sessionFile) used() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.touched = time.Now()
	return !f.gone && os.Chtimes(f.path, time.Time{}, f.touched) == nil // a failure would let it expire early
}

// read reads the file.
func (f *sessionFile) read() (*storedSession, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) > sessionRetention {
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	data, err := io.ReadAll(io.LimitReader(file, 3*maxSessionFile))
	if err != nil {
		return nil, err
	}
	f.size = len(data) // how much is outdated is unknown: a large file is soon rewritten
	s := &storedSession{seen: map[string]string{}, uris: map[string]struct{}{}}
	for text := range bytes.Lines(data) {
		var line sessionRecord
		if text[len(text)-1] != '\n' {
			return nil, errors.New("the last line is not complete")
		}
		if err := json.Unmarshal(text, &line); err != nil {
			return nil, err
		}
		if mcp.IsLegacy(line.Version) {
			s.version, s.capabilities = line.Version, line.Capabilities
		}
		if line.Memory != nil {
			s.memory = line.Memory
		}
		maps.Copy(s.seen, line.Seen)
		if line.Add != "" {
			s.uris[line.Add] = struct{}{}
		}
		delete(s.uris, line.Remove)
	}
	if s.version == "" {
		return nil, errors.New("it has no version")
	}
	return s, nil
}
