package login

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/keyring"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// Kind identifies where secrets are stored.
type Kind string

// Values of Kind. KindAuto means the keyring if it is available, otherwise a file.
const (
	KindAuto    Kind = ""
	KindKeyring Kind = "keyring"
	KindFile    Kind = "file"
	KindMemory  Kind = "memory" // in the memory of this process
)

// Options configures a [Store].
type Options struct {
	// Dir is the directory that contains the files with logins. It is created on demand and
	// accessible only to its owner.
	Dir string
	// Kind determines where the secrets of new logins are stored. Secrets of earlier logins are not
	// moved.
	Kind Kind
	// Flags are appended to the command line that logs in to a server, for example "--host cursor".
	Flags string
	// Logger receives warnings for the user; nil discards them.
	Logger *slog.Logger
	// Keyring accesses the user's keyring; the default is package keyring.
	Keyring Keyring
}

// Keyring holds the functions that access a keyring.
type Keyring struct {
	Get    func(account string) (string, error)
	Set    func(account, secret string) error
	Delete func(account string) error
}

// Store stores the logins that all processes of a user share. It is safe for concurrent use.
type Store struct {
	opts   Options
	memory struct {
		mu     sync.Mutex
		logins map[string][]byte // for KindMemory: file contents, keyed by file name
	}
}

// NewStore returns a store. It performs no I/O.
func NewStore(opts Options) *Store {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Keyring.Get == nil {
		ring := keyring.New()
		opts.Keyring = Keyring{ring.Get, ring.Set, ring.Delete}
	}
	s := &Store{opts: opts}
	s.memory.logins = map[string][]byte{}
	return s
}

// name returns the base name, without extension, of the files for a server.
func name(server string) string {
	sum := sha256.Sum256([]byte(server))
	return hex.EncodeToString(sum[:12])
}

// Path returns the path of the file that contains the logins for a target.
func (s *Store) Path(t Target) string { return s.path(t.URL) }

func (s *Store) path(server string) string { return filepath.Join(s.opts.Dir, name(server)+".json") }

// newest returns all logins for a target's server, and the newest login that matches the target's
// config, or nil if none does.
func (s *Store) newest(t Target) (all []*Login, l *Login, err error) {
	if all, err = s.read(t.URL); err != nil {
		return nil, nil, err
	}
	if i := slices.IndexFunc(all, t.matches); i >= 0 {
		l = all[i]
	}
	return all, l, nil
}

// Get returns the newest login that matches the target's config, including its secrets. The error
// is [ErrNone] if there is none.
func (s *Store) Get(t Target) (*Login, error) {
	_, l, err := s.newest(t)
	if err == nil && l == nil {
		err = ErrNone
	}
	if err != nil {
		return nil, err
	}
	return l, s.reveal(l)
}

// Since returns when the user logged in to the target. It is zero if the time is unknown or the
// user is not logged in.
func (s *Store) Since(t Target) time.Time {
	if _, l, err := s.newest(t); err == nil && l != nil {
		return l.Since
	}
	return time.Time{}
}

// Put stores a login. It replaces an existing login with the same server, issuer, client and grant.
func (s *Store) Put(ctx context.Context, t Target, l *Login) error {
	unlock, err := s.lock(ctx, t.URL)
	if err != nil {
		return err
	}
	defer unlock()
	l.Kind = s.opts.Kind
	return s.put(l)
}

// Delete deletes the logins that match the target's config and returns them. It tries to revoke
// their tokens; if that fails, it only logs a warning.
func (s *Store) Delete(ctx context.Context, t Target) ([]*Login, error) {
	if text, err := s.readText(t.URL); text == nil && err == nil {
		return nil, nil
	}
	unlock, err := s.lock(ctx, t.URL)
	if err != nil {
		return nil, err
	}
	defer unlock()
	all, err := s.read(t.URL)
	if err != nil && !errors.Is(err, errNotLogins) {
		return nil, err
	} else if err != nil {
		return nil, s.write(t.URL, nil)
	}
	var gone, rest []*Login
	var failed error
	for _, l := range all {
		if !t.matches(l) {
			rest = append(rest, l)
			continue
		}
		if err := s.reveal(l); err == nil {
			if err := l.revoke(ctx, newClient(ctx, t.URL)); err != nil {
				s.opts.Logger.Info("the token was not revoked", "server", t.ID, "err", err)
			}
		}
		if l.Kind == KindKeyring {
			if err := s.opts.Keyring.Delete(account(l)); err != nil {
				rest, failed = append(rest, l), fmt.Errorf("the login remains in the keyring, which cannot be changed: %w", err)
				continue
			}
		}
		gone = append(gone, l)
	}
	if len(gone) == 0 {
		return nil, failed
	}
	return gone, errors.Join(failed, s.write(t.URL, rest))
}

// addLacking records scopes whose absence caused a request to be refused, so that the next login
// requests them.
func (s *Store) addLacking(ctx context.Context, t Target, scopes []string) error {
	return s.change(ctx, t, func(l *Login) bool {
		before := len(l.Lacking)
		for _, scope := range scopes[:min(len(scopes), 50)] {
			if !slices.Contains(l.Lacking, scope) && !slices.Contains(l.Scopes, scope) && len(l.Lacking) < 50 {
				l.Lacking = append(l.Lacking, scope)
			}
		}
		return len(l.Lacking) > before
	})
}

// change calls the function change with the newest login that matches the target, and writes the
// logins if it returns true. Secrets are not modified.
func (s *Store) change(ctx context.Context, t Target, change func(*Login) bool) error {
	unlock, err := s.lock(ctx, t.URL)
	if err != nil {
		return err
	}
	defer unlock()
	all, l, err := s.newest(t)
	if err != nil || l == nil || !change(l) {
		return err
	}
	return s.write(t.URL, all)
}

// put stores a login and its secrets as the newest login for its server. The lock must be held. If
// the keyring does not accept the secrets, they are stored in the file, so that no token is lost;
// only for a new login of KindKeyring is this an error.
func (s *Store) put(l *Login) error {
	l.tokens.Secret = l.Client.secret.Reveal()
	l.setTokens(*l.tokens)
	if l.Kind == KindAuto || l.Kind == KindKeyring {
		secret, err := json.Marshal(*l.tokens)
		if err == nil {
			err = s.opts.Keyring.Set(account(l), string(secret))
		}
		switch {
		case err == nil:
			l.Kind = KindKeyring
		case l.Kind == KindKeyring && !l.stored:
			return fmt.Errorf("the keyring is not available: %w", err)
		default:
			if l.Kind == KindKeyring {
				s.opts.Logger.Warn("the keyring is not available; the token is now stored in a file", "server", l.ID, "err", err)
			}
			l.Kind, l.NoKeyring = KindFile, err
		}
	}
	return s.save(l)
}

// maxLogins is the maximum number of stored logins for one server.
const maxLogins = 8

// save writes a login to the file as the newest one. The lock must be held.
func (s *Store) save(l *Login) error {
	all, err := s.read(l.Server)
	if errors.Is(err, errNotLogins) {
		err = nil
	}
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, l.replaces)
	all = append([]*Login{l}, all[:min(len(all), maxLogins-1)]...)
	err = s.write(l.Server, all)
	l.stored = l.stored || err == nil
	return err
}

// account returns the name of the keyring entry for a login.
func account(l *Login) string {
	sum := sha256.Sum256([]byte(l.Server + "\x00" + l.Issuer + "\x00" + l.Client.ID + "\x00" + string(l.Grant)))
	return "login:" + hex.EncodeToString(sum[:12])
}

// file is the JSON structure of the file that contains the logins for one server.
type file struct {
	Version int         `json:"version"`
	Logins  []fileEntry `json:"logins"` // sorted, newest first
}

type fileEntry struct {
	*Login
	Tokens *tokens `json:"tokens,omitempty"` // nil if they are in the keyring
}

const fileVersion = 1

var errNotLogins = errors.New("the file does not contain logins")

// read returns the logins for a server, newest first. It does not read secrets from the keyring;
// see reveal.
func (s *Store) read(server string) ([]*Login, error) {
	text, err := s.readText(server)
	if text == nil || err != nil {
		return nil, err
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil || f.Version < 1 {
		return nil, fmt.Errorf("%s: %w; run mcptrack login, or mcptrack login --out, to replace the file", s.path(server), errNotLogins)
	}
	if f.Version > fileVersion {
		return nil, fmt.Errorf("%s: the file was written by a newer version of mcptrack", s.path(server))
	}
	var all []*Login
	for _, e := range f.Logins {
		if e.Login == nil || e.Server != server {
			continue // the file was copied or renamed from the file of another server
		}
		e.stored, e.tokens = true, new(tokens)
		if e.Tokens != nil {
			e.setTokens(*e.Tokens)
		}
		all = append(all, e.Login)
	}
	return all, nil
}

func (s *Store) readText(server string) ([]byte, error) {
	s.memory.mu.Lock()
	text := s.memory.logins[name(server)]
	s.memory.mu.Unlock()
	if text != nil {
		return text, nil
	}
	path := s.path(server)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	text, err := secretfile.ReadAll(path)
	if err != nil {
		if _, gone := os.Lstat(path); errors.Is(gone, fs.ErrNotExist) {
			return nil, nil // deleted in the meantime
		}
	}
	return text, err
}

// write replaces the stored logins for a server. The lock must be held.
func (s *Store) write(server string, all []*Login) error {
	if len(all) == 0 {
		s.memory.mu.Lock()
		delete(s.memory.logins, name(server))
		s.memory.mu.Unlock()
		if err := os.Remove(s.path(server)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	f := file{Version: fileVersion}
	inMemory := false
	for _, l := range all {
		e := fileEntry{Login: l}
		if l.Kind != KindKeyring {
			e.Tokens = l.tokens
		}
		inMemory = inMemory || l.Kind == KindMemory
		f.Logins = append(f.Logins, e)
	}
	text, err := json.Marshal(f)
	for err == nil && len(text) >= secretfile.MaxFile && len(f.Logins) > 1 { // read refuses larger files, so drop the oldest logins
		f.Logins = f.Logins[:len(f.Logins)-1]
		text, err = json.Marshal(f)
	}
	if err == nil && len(text) >= secretfile.MaxFile {
		err = errors.New("the login is too large to be stored")
	}
	if err != nil {
		return err
	}
	if inMemory {
		s.memory.mu.Lock()
		defer s.memory.mu.Unlock()
		s.memory.logins[name(server)] = text
		return nil
	}
	if err := atomicfile.Write(s.path(server), 0o600, append(text, '\n')); err != nil {
		return fmt.Errorf("the login cannot be stored: %w", err)
	}
	return nil
}

// reveal reads the secrets of a login from the keyring, if they are stored there.
func (s *Store) reveal(l *Login) error {
	if l.Kind != KindKeyring {
		return nil
	}
	secret, err := s.opts.Keyring.Get(account(l))
	if errors.Is(err, keyring.ErrNotFound) {
		return ErrNone // the keyring entry was deleted
	}
	var t tokens
	if err == nil {
		err = json.Unmarshal([]byte(secret), &t)
	}
	if err != nil {
		return fmt.Errorf("the login is in the keyring, which cannot be read: %w", err)
	}
	l.setTokens(t)
	return nil
}

// A Stamp identifies a version of the file that contains a server's logins. It changes whenever the
// logins change.
type Stamp struct{ info fs.FileInfo }

// Stamp returns the current stamp of a target's logins.
func (s *Store) Stamp(t Target) Stamp {
	info, err := os.Stat(s.path(t.URL))
	if err != nil {
		return Stamp{}
	}
	return Stamp{info}
}

// Same reports whether the logins are unchanged between two stamps.
func (a Stamp) Same(b Stamp) bool {
	if a.info == nil || b.info == nil {
		return a.info == nil && b.info == nil
	}
	return os.SameFile(a.info, b.info) && a.info.ModTime().Equal(b.info.ModTime()) && a.info.Size() == b.info.Size()
}

// lockPoll is the interval between attempts to acquire a lock that another process holds.
const lockPoll = 10 * time.Millisecond

// lock acquires the lock on a server's logins, which works across processes. Only the holder of the
// lock may change the logins or renew their tokens.
func (s *Store) lock(ctx context.Context, server string) (unlock func(), err error) {
	if s.opts.Kind != KindMemory {
		if err := os.MkdirAll(s.opts.Dir, 0o700); err != nil {
			return nil, err
		}
	} else if _, err := os.Stat(s.opts.Dir); err != nil { // no directory: no other process has logins to protect
		return func() {}, nil
	}
	l := flock.New(filepath.Join(s.opts.Dir, name(server)+".lock"), flock.SetPermissions(0o600))
	ok, err := l.TryLockContext(ctx, lockPoll)
	switch {
	case ctx.Err() != nil:
		_ = l.Close()
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("lock the logins: %w", err)
	case !ok:
		return nil, errors.New("the logins are locked")
	}
	return func() { _ = l.Close() }, nil
}
