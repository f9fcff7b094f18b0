package login

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/keyring"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// file is the JSON of the file that holds one server's logins.
type file struct {
	Version int         `json:"version"`
	Logins  []fileEntry `json:"logins"` // the newest first
}

type fileEntry struct {
	*Login
	Tokens *tokens `json:"tokens,omitempty"` // nil: they are in the keyring
}

const fileVersion = 1

var errNotLogins = errors.New("the file does not contain logins")

func encode(v any) ([]byte, error) { return json.Marshal(v) }

// read returns the logins of a server, the newest first. Secrets that are in the keyring are
// not read; see reveal.
func (s *Store) read(server string) ([]*Login, error) {
	text, err := s.readText(server)
	if text == nil || err != nil {
		return nil, err
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil || f.Version < 1 {
		return nil, fmt.Errorf("%s: %w; mcptrack login or logout replaces the file", s.path(server), errNotLogins)
	}
	if f.Version > fileVersion {
		return nil, fmt.Errorf("%s: the file was written by a newer version of mcptrack", s.path(server))
	}
	var all []*Login
	for _, e := range f.Logins {
		if e.Login == nil || e.Server != server {
			continue // the file was copied or renamed from that of another server
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
			return nil, nil // deleted meanwhile
		}
	}
	return text, err
}

// write replaces the logins of a server. The caller has the lock.
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
	text, err := encode(f)
	for err == nil && len(text) >= secretfile.MaxFile && len(f.Logins) > 1 { // else the file could not be read again
		f.Logins = f.Logins[:len(f.Logins)-1]
		text, err = encode(f)
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

// reveal reads the secrets of a login from the keyring, if they are there.
func (s *Store) reveal(l *Login) error {
	if l.Kind != KindKeyring {
		return nil
	}
	secret, err := s.opts.Keyring.Get(account(l))
	if errors.Is(err, keyring.ErrNotFound) {
		return ErrNone // the keyring's entry was deleted
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
