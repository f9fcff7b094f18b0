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
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/mcp"
)

const (
	// sessionRetention is how long an unused session stays stored.
	sessionRetention = 7 * 24 * time.Hour
	// touchEvery is the minimum interval between two updates of a session file's modification time,
	// which records the last use. It is short, so that sweep does not remove sessions in use.
	touchEvery = time.Minute
	// maxSessionFile limits the size of a session file in bytes. A larger file is rewritten; a session
	// that then needs more than half of it is not stored.
	maxSessionFile = 4 << 20
	sessionSuffix  = ".session"
)

// sessionDir stores sessions in a directory, one file per session, so that they outlive the server.
// Several servers may share a directory. A nil *sessionDir stores nothing.
//
// A file name consists of digests of the principal and the session id, so that read access to the
// directory is not enough to use the sessions.
//
// A signed session id with the same content would need no files, but could contain no subscriptions:
// most clients neither repeat them nor start a new session after status 404.
type sessionDir struct {
	dir     string
	limit   int // files of each principal that sweep keeps
	logger  *slog.Logger
	created atomic.Int64 // number of sessions created by this server
	warned  sync.Once
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

// openSessionDir opens dir, and creates it if necessary. It returns nil if the directory cannot be
// used. Of each principal, about limit to 2*limit sessions are stored.
func openSessionDir(dir string, limit int, logger *slog.Logger) *sessionDir {
	d := &sessionDir{dir: dir, limit: limit, logger: logger}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = d.sweep()
	}
	if err != nil {
		logger.Warn("clients must connect again after a restart because their sessions cannot be stored", "err", err)
		return nil
	}
	return d
}

// sweep removes the files that are too old, and each principal's oldest files beyond the limit.
func (d *sessionDir) sweep() error {
	entries, err := os.ReadDir(d.dir)
	files := map[string][]fs.FileInfo{} // by principal
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), sessionSuffix) {
			principal, _, _ := strings.Cut(e.Name(), "-")
			files[principal] = append(files[principal], info)
		}
	}
	for _, of := range files {
		sort.Slice(of, func(i, j int) bool { return of[i].ModTime().After(of[j].ModTime()) })
		for i, f := range of {
			if i >= d.limit || time.Since(f.ModTime()) > sessionRetention {
				_ = os.Remove(filepath.Join(d.dir, f.Name())) // another server may already have removed it
			}
		}
	}
	return err
}

func (d *sessionDir) file(id, principal string) *sessionFile {
	return &sessionFile{dir: d, path: filepath.Join(d.dir, nameDigest(principal)+"-"+nameDigest(id)+sessionSuffix)}
}

func nameDigest(s string) string {
	d := sha256.Sum256([]byte(s))
	return hex.EncodeToString(d[:16])
}

// create stores a new session.
func (d *sessionDir) create(ss *session) *sessionFile {
	if d == nil {
		return nil
	}
	if d.created.Add(1)%int64(d.limit) == 0 {
		_ = d.sweep() // what cannot be listed now is removed later
	}
	_ = os.MkdirAll(d.dir, 0o700) // it may have been removed meanwhile; if this fails, add fails
	f := d.file(ss.id, ss.principal)
	f.add(ss, ss.records()...)
	return f
}

// take loads the principal's session with this id: what describes it, and the URIs to which it
// subscribes. The file is nil if there is no such session.
func (d *sessionDir) take(id, principal string) (f *sessionFile, was sessionRecord, uris map[string]struct{}) {
	if d == nil || id == "" {
		return nil, was, nil
	}
	f = d.file(id, principal)
	was, uris, err := f.read()
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			d.warn("a client must connect again because its session cannot be read", err)
		}
		return nil, was, nil
	}
	return f, was, uris
}

// warn logs only the first failure, because clients could cause any number of failures.
func (d *sessionDir) warn(what string, err error) {
	d.warned.Do(func() { d.logger.Warn(what, "err", err) })
}

// sessionFile is the file of one session in memory. A nil *sessionFile stores nothing.
type sessionFile struct {
	dir  *sessionDir
	path string

	// mu serializes writes. Requests wait only for other requests of the same session.
	mu      sync.Mutex
	size    int       // in bytes
	touched time.Time // zero before the first touch
	gone    bool      // the session has ended or can no longer be stored
}

// add appends lines to the file, or rewrites a file that has become too large. After an error it
// removes the file, because a stored session must never be outdated.
func (f *sessionFile) add(ss *session, lines ...sessionRecord) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return
	}
	data := joined(lines)
	err := f.append(data)
	f.size += len(data)
	if f.size > maxSessionFile || errors.Is(err, fs.ErrNotExist) { // another server may have removed it
		data = joined(ss.records()) // they already include the new lines
		if f.size = len(data); f.size > maxSessionFile/2 {
			err = fmt.Errorf("the session requires more than %d bytes", maxSessionFile/2)
		} else {
			err = atomicfile.Replace(f.path, 0o600, data)
		}
	}
	if err != nil {
		f.gone = true
		_ = os.Remove(f.path) // nothing more can be done if this fails too
		f.dir.warn("a client must connect again after a restart because its session cannot be stored", err)
	}
}

// append appends to the file without fsync: it must survive a crash of the process, not of the machine.
func (f *sessionFile) append(data []byte) error {
	flags := os.O_WRONLY | os.O_APPEND
	if f.size == 0 {
		flags |= os.O_CREATE
	}
	file, err := os.OpenFile(f.path, flags, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

func joined(lines []sessionRecord) []byte {
	var b bytes.Buffer
	for _, line := range lines {
		b.Write(encode(line))
		b.WriteByte('\n')
	}
	return b.Bytes()
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
	defer f.mu.Unlock()
	if now := time.Now(); !f.gone && now.Sub(f.touched) > touchEvery {
		f.touched = now
		_ = os.Chtimes(f.path, time.Time{}, now) // if this fails, the file expires too early
	}
}

// read reads and decodes the file.
func (f *sessionFile) read() (was sessionRecord, uris map[string]struct{}, err error) {
	info, err := os.Stat(f.path)
	if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) > sessionRetention {
		return was, nil, errors.Join(err, fs.ErrNotExist)
	}
	file, err := os.Open(f.path)
	if err != nil {
		return was, nil, err
	}
	defer func() { _ = file.Close() }()
	f.size = int(info.Size())
	was.Seen, uris = map[string]string{}, map[string]struct{}{}
	for lines := json.NewDecoder(io.LimitReader(file, 2*maxSessionFile)); ; {
		var line sessionRecord
		if err = lines.Decode(&line); err != nil {
			break
		}
		if mcp.IsLegacy(line.Version) {
			was.Version, was.Client, was.Capabilities = line.Version, line.Client, line.Capabilities
		}
		if line.Memory != nil {
			was.Memory = line.Memory
		}
		maps.Copy(was.Seen, line.Seen)
		if line.Add != "" {
			uris[line.Add] = struct{}{}
		}
		delete(uris, line.Remove)
	}
	if err == io.EOF && was.Version != "" {
		return was, uris, nil
	}
	return was, nil, fmt.Errorf("the file is damaged: %w", err)
}
