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
	// sessionRetention is how long an unused session stays stored.
	sessionRetention = 7 * 24 * time.Hour
	// touchEvery is the minimum interval between two updates of a session file's modification time,
	// which records the last use.
	touchEvery = time.Hour
	// maxSessionFile limits the size of a session file in bytes. A session that needs more is not
	// stored.
	maxSessionFile = 4 << 20
	// sessionFileSlack is the number of bytes by which a session file may exceed twice its compact
	// size before it is rewritten.
	sessionFileSlack = 64 << 10
)

// sessionDir stores sessions in a directory, one file per session, so that they outlive the server.
// Several servers may share a directory. A nil *sessionDir stores nothing.
//
// A file name consists of digests of the principal and the session id, so that read access to the
// directory is not enough to use the sessions.
type sessionDir struct {
	dir    string
	logger *slog.Logger

	warned sync.Once

	mu   sync.Mutex
	away map[string]time.Time // last use of each session that is not in memory, by file name
	room fair.Limit           // limits the sessions in away, by digest of the principal
}

// sessionRecord is one line of a session file. The first line describes the session; later lines
// record changes.
type sessionRecord struct {
	// Version is the protocol version. It is present only in the first line.
	Version      string            `json:"version,omitempty"`
	Client       string            `json:"client,omitempty"` // name of the client
	Capabilities json.RawMessage   `json:"capabilities,omitempty"`
	Memory       json.RawMessage   `json:"memory,omitempty"` // value stored by Client.Remember
	Seen         map[string]string `json:"seen,omitempty"`   // digests of the lists that the client saw last, by method
	Add          string            `json:"add,omitempty"`    // a new subscription's URI
	Remove       string            `json:"remove,omitempty"`
}

// storedSession is the decoded content of a session file.
type storedSession struct {
	version, client      string
	capabilities, memory json.RawMessage
	seen                 map[string]string
	uris                 map[string]struct{}
}

// openSessionDir opens dir, and creates it if necessary. At most limit sessions that are not in
// memory are stored there. It returns nil if the directory cannot be used.
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
				_ = os.Remove(filepath.Join(dir, name)) // another server may already have removed it
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

// setAway records that a session is not in memory. It returns the files to remove: those that are
// too old, and the principal's oldest files beyond the limit.
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

// back records that a session is in memory again. The caller must hold k.mu.
func (k *sessionDir) back(name string) {
	if _, ok := k.away[name]; ok {
		principal, _, _ := strings.Cut(name, "-")
		k.room.Give(principal)
		delete(k.away, name)
	}
}

// create stores a new session. It returns nil if the session cannot be stored.
func (k *sessionDir) create(ss *session) *sessionFile {
	if k == nil {
		return nil
	}
	f := &sessionFile{of: k, path: filepath.Join(k.dir, sessionFileName(ss.principal, ss.id)), touched: time.Now()}
	data, err := f.content(ss.records())
	if err == nil {
		err = os.MkdirAll(k.dir, 0o700) // the directory may have been removed meanwhile
	}
	if err == nil { // no fsync: the file must survive a crash of the process, not of the machine
		err = os.WriteFile(f.path, data, 0o600)
	}
	f.giveUp(err)
	if f.gone {
		return nil
	}
	return f
}

// park records that a session has been removed from memory, so that its file can expire.
func (k *sessionDir) park(f *sessionFile) {
	if k == nil || !f.used() {
		return
	}
	for _, name := range k.setAway(filepath.Base(f.path), time.Now()) {
		_ = os.Remove(filepath.Join(k.dir, name)) // another server may already have removed it
	}
}

// take loads the principal's session with this id. The file is nil if there is no such session.
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

// warn logs only the first failure, because clients could cause any number of failures.
func (k *sessionDir) warn(what string, err error) {
	k.warned.Do(func() { k.logger.Warn(what, "err", err) })
}

// sessionFile is the file of one session in memory. A nil *sessionFile stores nothing.
type sessionFile struct {
	of   *sessionDir
	path string

	// mu serializes writes. Requests wait only for other requests of the same session.
	mu          sync.Mutex
	size, small int // current size in bytes, and size after the last rewrite
	touched     time.Time
	gone        bool // the session has ended or can no longer be stored
}

// add appends a line to the file. If the file has become too large, add rewrites it with the lines
// that all returns.
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
		data, err := f.content(all()) // all already includes the new line
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

// content encodes the complete file. The caller must hold f.mu.
func (f *sessionFile) content(lines []sessionRecord) ([]byte, error) {
	var b bytes.Buffer
	for _, line := range lines {
		b.Write(encode(line))
		b.WriteByte('\n')
	}
	f.size, f.small = b.Len(), b.Len()
	if b.Len() > maxSessionFile {
		return nil, fmt.Errorf("the session requires more than %d bytes", maxSessionFile)
	}
	return b.Bytes(), nil
}

// giveUp removes the file after an error, because a stored session must never be outdated. The
// caller must hold f.mu.
func (f *sessionFile) giveUp(err error) {
	if err != nil {
		f.gone = true
		_ = os.Remove(f.path) // nothing more can be done if this fails too
		f.of.warn("a client must connect again after a restart because its session cannot be stored", err)
	}
}

// remove deletes the file permanently.
func (f *sessionFile) remove() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = true
	_ = os.Remove(f.path) // the file may already be gone
}

// touch records the time of last use in the file, at most once per touchEvery.
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

// used records the time of last use in the file. It reports false if the session is not stored.
func (f *sessionFile) used() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.touched = time.Now()
	return !f.gone && os.Chtimes(f.path, time.Time{}, f.touched) == nil // if this fails, the file would expire too early
}

// read reads and decodes the file.
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
	f.size = len(data) // the compact size is unknown, so that a large file is soon rewritten
	s := &storedSession{seen: map[string]string{}, uris: map[string]struct{}{}}
	for text := range bytes.Lines(data) {
		var line sessionRecord
		if text[len(text)-1] != '\n' {
			return nil, errors.New("the last line is incomplete")
		}
		if err := json.Unmarshal(text, &line); err != nil {
			return nil, err
		}
		if mcp.IsLegacy(line.Version) {
			s.version, s.client, s.capabilities = line.Version, line.Client, line.Capabilities
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
