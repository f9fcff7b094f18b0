package web

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/filewatch"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// Tokens are the tokens of a file that is followed: new ones are accepted, and what a removed one
// was used for ends. All methods may be called from anywhere, and on nil: then no token is set.
type Tokens struct {
	file   string // "": it is not followed
	kick   <-chan struct{}
	logger *slog.Logger
	now    atomic.Pointer[Token]

	mu      sync.Mutex
	inUse   map[*use]struct{}
	changed []func() // see OnChange
	least   int      // bits of entropy that each secret must have
	failed  string   // why the file could not be read last, which was logged
}

// use is a request in progress.
type use struct {
	digest [sha256.Size]byte // of its secret
	end    context.CancelCauseFunc
}

// errRemoved ends the requests with a secret that was removed.
var errRemoved = errors.New("the token was removed")

// removedTimeout bounds a write in progress when the token is removed.
const removedTimeout = time.Second

// FixedTokens returns tokens that do not change.
func FixedTokens(t Token) *Tokens {
	out := &Tokens{logger: slog.New(slog.DiscardHandler), inUse: map[*use]struct{}{}}
	out.now.Store(&t)
	return out
}

// FollowTokens reads a file as [LoadToken] does. [Server.Serve] follows it; a value from kick, which
// may be nil, makes it read the file immediately. While the file cannot be used, the tokens that
// were read last stay valid.
func FollowTokens(file string, kick <-chan struct{}, logger *slog.Logger) (*Tokens, error) {
	first, err := LoadToken(file)
	if err != nil {
		return nil, err
	}
	t := FixedTokens(first)
	t.file, t.kick = file, kick
	if logger != nil {
		t.logger = logger
	}
	return t, nil
}

// current returns the tokens that are valid now.
func (t *Tokens) current() Token {
	if t == nil {
		return Token{}
	}
	return *t.now.Load()
}

// Set reports whether there is a token. It never changes.
func (t *Tokens) Set() bool { return t.current().Set() }

// Holds is [Token.Holds] of the present tokens.
func (t *Tokens) Holds(name string) bool { return t.current().Holds(name) }

// HoldsPrincipal reports whether a request may still have that [Tokens.Principal].
func (t *Tokens) HoldsPrincipal(principal string) bool {
	return slices.ContainsFunc(t.current().secrets, func(s secret) bool { return s.principal == principal })
}

// Several is [Token.Several] of the present tokens.
func (t *Tokens) Several() bool { return t.current().Several() }

// Identify is [Token.Identify], for a request that has begun of the tokens then.
func (t *Tokens) Identify(r *http.Request) string { return t.of(r).name }

// Principal is [Token.Principal], for a request that has begun of the tokens then.
func (t *Tokens) Principal(r *http.Request) string { return t.of(r).principal }

// secretKey is the key of the secret in the Authorization header of a request that has begun.
type secretKey struct{}

func (t *Tokens) of(r *http.Request) secret {
	if found, ok := r.Context().Value(secretKey{}).(secret); ok {
		return found
	}
	return t.current().of(r)
}

// String does not reveal the tokens.
func (t *Tokens) String() string { return t.current().String() }

// GoString is String.
func (t *Tokens) GoString() string { return t.String() }

// OnChange adds a function that is called after each change. It must be called before Serve, and the
// function must not block.
func (t *Tokens) OnChange(f func()) {
	if t != nil {
		t.changed = append(t.changed, f)
	}
}

// require sets the entropy that each secret must have, and returns why the present ones do not.
func (t *Tokens) require(bits int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.least = bits
	return t.current().check(bits)
}

func (t Token) check(bits int) error {
	if t.bits >= bits {
		return nil
	}
	return &OptionError{"token-file", fmt.Sprintf(
		"the token is too easy to guess for an address that is reachable from other machines (about %d of %d bits); make one with: openssl rand -base64 24", t.bits, bits)}
}

// begin begins a request that uses a secret, or a login with it: the context of the request that it
// returns ends when the secret is removed, and a write in progress soon after. The caller must call
// end when the request has ended.
func (t *Tokens) begin(r *http.Request, found secret, rc *http.ResponseController) (_ *http.Request, end func()) {
	ctx := r.Context()
	if len(r.Header.Values("Authorization")) > 0 {
		ctx = context.WithValue(ctx, secretKey{}, found)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(ctx, func() {
		if context.Cause(ctx) == errRemoved { //nolint:errorlint // it is never wrapped
			_ = rc.SetWriteDeadline(time.Now().Add(removedTimeout))
		}
	})
	mine := &use{found.digest, cancel}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inUse[mine] = struct{}{}
	if !t.current().has(found.digest) { // it was removed a moment ago
		cancel(errRemoved)
	}
	return r.WithContext(ctx), func() {
		t.mu.Lock()
		delete(t.inUse, mine)
		t.mu.Unlock()
		cancel(nil)
	}
}

// run follows the file until ctx ends.
func (t *Tokens) run(ctx context.Context) {
	if t == nil || t.file == "" {
		return
	}
	file := filewatch.NewFile(t.file, filewatch.FileOptions{PollOnly: 500 * time.Millisecond, MaxBytes: secretfile.MaxSize, Logger: t.logger})
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { _ = file.Run(ctx) })
	looks := time.NewTicker(time.Second) // at the mode: filewatch follows the content
	defer looks.Stop()
	mode := modeOf(t.file)
	for {
		select {
		case _, ok := <-file.Changes():
			if !ok {
				return
			}
			if !t.read() {
				file.Retry() // its mode may change, and not its content
			}
		case <-looks.C:
			if now := modeOf(t.file); now != mode {
				mode = now
				t.read()
			}
		case <-t.kick:
			t.read()
		case <-ctx.Done():
			return
		}
	}
}

// modeOf returns the mode of a file, 0 if it cannot be read.
func modeOf(path string) fs.FileMode {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Mode()
}

// read reads the file and reports whether it could be used.
func (t *Tokens) read() bool {
	next, err := LoadToken(t.file)
	t.mu.Lock()
	if err == nil {
		err = next.check(t.least)
	}
	if err != nil {
		known := t.failed == err.Error()
		t.failed = err.Error()
		t.mu.Unlock()
		if !known {
			t.logger.Warn("the token file cannot be used, so the tokens that were read before stay valid; correct the file, or stop mcptrack to refuse all clients", "err", err)
		}
		return false
	}
	recovered := t.failed != ""
	t.failed = ""
	before := t.current()
	if slices.Equal(before.secrets, next.secrets) {
		t.mu.Unlock()
		if recovered {
			t.logger.Info("the token file can be used again; its tokens are the same")
		}
		return true
	}
	t.now.Store(&next)
	for u := range t.inUse {
		if !next.has(u.digest) {
			u.end(errRemoved)
		}
	}
	t.mu.Unlock()
	t.logger.Info("the token file was read again", "new", next.without(before), "removed", before.without(next))
	for _, f := range t.changed {
		f()
	}
	return true
}

// without returns how many secrets other does not have.
func (t Token) without(other Token) (n int) {
	for _, s := range t.secrets {
		if !other.has(s.digest) {
			n++
		}
	}
	return n
}
