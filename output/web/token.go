package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/secretfile"
)

const (
	minToken  = 16   // minimum length in characters
	maxToken  = 1024 // maximum length in characters
	maxName   = 32   // maximum length in characters
	nameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	// pathMark follows a token in the file if the token may also be the last segment of an MCP
	// endpoint's path, for clients that cannot send a header.
	pathMark = "path"
)

// DefaultName is the name of an unnamed token.
const DefaultName = "default"

// token is one line of the token file. It stores only the digest of the text, so the text cannot be
// printed and every comparison takes the same time.
type token struct {
	name      string
	digest    [sha256.Size]byte
	principal string // see Tokens.Principal
	inPath    bool   // see pathMark
	client    bool   // see Tokens.SetClients
	guessable bool
}

// tokenSet is the set of currently valid tokens.
type tokenSet []token

func digest(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }

// loadTokens reads a token file; see [FollowTokens]. Its errors are of type *[OptionError].
func loadTokens(file string) (set tokenSet, err error) {
	lines, err := secretfile.ReadLines(file)
	if err != nil {
		return nil, &OptionError{"token-file", err.Error()}
	}
	for i, words := range lines {
		t, err := parseToken(words)
		if other := set.find(t.digest).name; err == nil && other != "" && other != t.name {
			err = fmt.Errorf("this token also belongs to %s; each client needs its own", other)
		}
		if err != nil {
			problem := err.Error()
			if len(lines) > 1 {
				problem = fmt.Sprintf("line %d: %s", i+1, problem)
			}
			return nil, &OptionError{"token-file", (&secretfile.RefusedError{Path: file, Problem: problem}).Error()}
		}
		set = append(set, t)
	}
	return set, nil
}

// parseToken parses the words of a line: TOKEN or NAME TOKEN, optionally followed by pathMark.
func parseToken(words []string) (token, error) {
	t := token{name: DefaultName, inPath: len(words) > 1 && words[len(words)-1] == pathMark}
	if t.inPath {
		words = words[:len(words)-1]
	}
	if len(words) > 2 {
		return token{}, errors.New("expected TOKEN or NAME TOKEN, optionally followed by the word path")
	}
	text := words[len(words)-1]
	if len(words) == 2 {
		t.name = words[0]
	}
	err := t.fill(text)
	return t, err
}

// fill sets everything about a named token but whose it is.
func (t *token) fill(text string) error {
	if len(text) < minToken || len(text) > maxToken {
		return fmt.Errorf("a token must have %d to %d characters, this one has %d", minToken, maxToken, len(text))
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return errors.New("a token must consist of visible ASCII characters")
		}
	}
	if len(t.name) > maxName || strings.Trim(t.name, nameChars) != "" || t.name == text {
		return fmt.Errorf("invalid name of a token; use at most %d letters, digits, ., _ and -", maxName)
	}
	t.digest, t.guessable, t.principal = digest(text), guessable(text), "name "+t.name
	if t.name == DefaultName {
		d := digest("principal " + text)
		t.principal = "secret " + hex.EncodeToString(d[:])
	}
	return nil
}

// guessable reports whether a text cannot be a random one of 128 bits: it is too short for base64, or
// for hexadecimal digits if it has no others, or has few distinct characters.
func guessable(text string) bool {
	const inBase64, inHex, minDistinct = 22, 32, 8
	least := inBase64
	if strings.Trim(strings.ToLower(text), "0123456789abcdef-") == "" { // a UUID has hyphens
		least = inHex
	}
	distinct := map[rune]bool{}
	for _, r := range text {
		distinct[r] = true
	}
	return len(text) < least || len(distinct) < minDistinct
}

// find returns the token with the given digest, or the zero value.
func (set tokenSet) find(d [sha256.Size]byte) (found token) {
	for _, t := range set {
		if subtle.ConstantTimeCompare(d[:], t.digest[:]) == 1 {
			found = t
		}
	}
	return found
}

func (set tokenSet) has(d [sha256.Size]byte) bool { return set.find(d).name != "" }

// without returns the number of tokens that are not in other.
func (set tokenSet) without(other tokenSet) (n int) {
	for _, t := range set {
		if !other.has(t.digest) {
			n++
		}
	}
	return n
}

// check returns an error if a token is guessable.
func (set tokenSet) check() error {
	for _, t := range set {
		if t.guessable {
			whose := "the token"
			if t.client {
				whose += " of client " + t.name
			}
			return &OptionError{"token-file", whose + " is too easy to guess for an address that is reachable from other machines; make one with: openssl rand -base64 24"}
		}
	}
	return nil
}

// bearer returns the token in the Authorization header of a request. It returns false if there is
// no such header, more than one, or a malformed one.
func bearer(r *http.Request) (string, bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	return strings.TrimSpace(text), strings.EqualFold(scheme, "Bearer")
}

// Tokens holds the tokens of a file and of the clients of a config; each client must present one of them.
// When they change, new tokens are accepted, and the requests and logins of removed tokens end. It is safe
// for concurrent use. A nil Tokens has no token.
type Tokens struct {
	file    string      // empty if there is none
	needed  atomic.Bool // there were clients
	exposed atomic.Bool // no token may be guessable
	kick    <-chan struct{}
	logger  *slog.Logger
	now     atomic.Pointer[tokenSet]

	mu      sync.Mutex // guards the fields below
	inFile  tokenSet
	clients []Client
	inUse   map[*tokenUse]struct{}
	changed []func() // see OnChange
}

// tokenUse is a request in progress.
type tokenUse struct {
	token
	cancel context.CancelCauseFunc
}

// errTokenRemoved cancels the requests of a removed token.
var errTokenRemoved = errors.New("the token was removed")

// removedTimeout bounds a write that is in progress when the token is removed.
const removedTimeout = time.Second

// FollowTokens reads the tokens in a file that only its owner may read; see
// [secretfile.ReadLines]. A line is TOKEN or NAME TOKEN; a token has 16 to 1,024 visible ASCII
// characters. NAME identifies the client that owns subscriptions, so it should stay when the
// token is replaced; several tokens may have the same name. If the word path follows, the token
// may also be the end of the path of an MCP endpoint. Errors are of type *[OptionError].
//
// [Server.Serve] follows the file; a value from kick, which may be nil, makes it read the file
// immediately. While the file cannot be used, the previous tokens stay valid, which is logged.
// If file is "", there are no tokens before [Tokens.SetClients]. logger may be nil.
func FollowTokens(file string, kick <-chan struct{}, logger *slog.Logger) (*Tokens, error) {
	var set tokenSet
	if file != "" {
		var err error
		if set, err = loadTokens(file); err != nil {
			return nil, err
		}
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	t := &Tokens{file: file, kick: kick, logger: logger, inFile: set, inUse: map[*tokenUse]struct{}{}}
	t.now.Store(&set)
	return t, nil
}

// current returns the currently valid tokens.
func (t *Tokens) current() tokenSet {
	if t == nil {
		return nil
	}
	return *t.now.Load()
}

// Set reports whether clients need a token. Once they do, they always will.
func (t *Tokens) Set() bool { return len(t.current()) > 0 || t != nil && t.needed.Load() }

// Client is a client of a config. Token is empty if it has none in the config.
type Client struct{ Name, Token string }

// SetClients sets the clients of a config. Their tokens are accepted in addition to the file's, and a token of
// the file with the name of a client is a token of this client. A token that belongs to several names counts for the
// client. Once there has been a client, requests without a token are refused. A client whose token cannot be used
// is refused, which is logged.
func (t *Tokens) SetClients(clients []Client) {
	t.mu.Lock()
	same := slices.Equal(t.clients, clients)
	t.clients = clients
	t.mu.Unlock()
	if same {
		return
	}
	if len(clients) > 0 {
		t.needed.Store(true)
	}
	t.replace(nil)
}

// replace replaces the tokens of the file, unless they are nil, and combines them with the clients'. It returns
// the tokens before.
func (t *Tokens) replace(inFile tokenSet) (before tokenSet) {
	t.mu.Lock()
	if inFile != nil {
		t.inFile = inFile
	}
	next := slices.Clone(t.inFile)
	for i, of := range next {
		next[i].client = slices.ContainsFunc(t.clients, func(c Client) bool { return c.Name == of.name })
	}
	for _, c := range t.clients {
		if c.Token == "" {
			continue
		}
		one := token{name: c.Name, client: true}
		err := one.fill(c.Token)
		if one.principal = "name " + c.Name; err == nil && t.exposed.Load() {
			err = tokenSet{one}.check()
		}
		if err != nil {
			t.logger.Warn("a client is refused", "client", c.Name, "err", err)
			continue
		}
		next = append(slices.DeleteFunc(next, func(of token) bool { return of.digest == one.digest }), one)
	}
	before = t.current()
	t.now.Store(&next)
	for use := range t.inUse {
		if !use.same(next.find(use.digest)) {
			use.cancel(errTokenRemoved)
		}
	}
	t.mu.Unlock()
	for _, f := range t.changed {
		f()
	}
	return before
}

// same reports whether a token belongs to the same client as another.
func (t token) same(o token) bool { return t.name == o.name && t.client == o.client }

// Client returns the name of the client of the config that made a request, with its token or a login; see SetClients. It
// is "" for other requests.
func (t *Tokens) Client(r *http.Request) string {
	if found := t.of(r); found.client {
		return found.name
	}
	return ""
}

// HoldsUnrestricted is like HoldsPrincipal for tokens that no client of the config has.
func (t *Tokens) HoldsUnrestricted(principal string) bool {
	return slices.ContainsFunc(t.current(), func(t token) bool { return t.principal == principal && !t.client })
}

// IsClient reports whether a client of the config has a name.
func (t *Tokens) IsClient(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.clients, func(c Client) bool { return c.Name == name })
}

// holderKey is the context key of the token of a request in progress, also if its login was made with it.
type holderKey struct{}

// Holds reports whether a token with the given name exists.
func (t *Tokens) Holds(name string) bool {
	return slices.ContainsFunc(t.current(), func(t token) bool { return t.name == name })
}

// HoldsPrincipal reports whether a valid token has the given [Tokens.Principal].
func (t *Tokens) HoldsPrincipal(principal string) bool {
	return slices.ContainsFunc(t.current(), func(t token) bool { return t.principal == principal })
}

// Several reports whether the tokens have more than one name. If so, each name is a separate
// client, and a client is not necessarily the operator.
func (t *Tokens) Several() bool {
	set := t.current()
	return slices.ContainsFunc(set, func(t token) bool { return t.name != set[0].name })
}

// Identify returns the name of the token of a request, or of its login, "" if there is no valid one. For a
// request in progress, the tokens at its start count.
func (t *Tokens) Identify(r *http.Request) string { return t.of(r).name }

// Principal returns who made a request: requests whose tokens have the same name belong
// together, and so do requests with the same unnamed token, however the header is spelled, and with a
// login with it. It is "" for a request without a valid token. It does not change when the process
// restarts, and does not reveal the token. For a request in progress, the tokens at its start count.
func (t *Tokens) Principal(r *http.Request) string { return t.of(r).principal }

func (t *Tokens) of(r *http.Request) token {
	if found, ok := r.Context().Value(holderKey{}).(token); ok {
		return found
	}
	text, ok := bearer(r)
	if !ok {
		return token{}
	}
	return t.current().find(digest(text))
}

// String does not reveal the tokens.
func (t *Tokens) String() string {
	if t.Set() {
		return "[redacted]"
	}
	return ""
}

// GoString is String.
func (t *Tokens) GoString() string { return t.String() }

// OnChange adds a function that is called after each change. OnChange must be called before
// Serve; the function must not block.
func (t *Tokens) OnChange(f func()) {
	if t != nil {
		t.changed = append(t.changed, f)
	}
}

// expose refuses guessable tokens from now on, and returns an error if there is one.
func (t *Tokens) expose() error {
	t.exposed.Store(true)
	return t.current().check()
}

// begin registers a request that uses a token, or a login with it. When the token is removed, the
// context of the returned request ends, and soon after a write in progress fails. The caller must
// call end when the request has ended.
func (t *Tokens) begin(r *http.Request, found token, rc *http.ResponseController) (_ *http.Request, end func()) {
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), holderKey{}, found))
	context.AfterFunc(ctx, func() {
		if context.Cause(ctx) == errTokenRemoved { //nolint:errorlint // it is never wrapped
			_ = rc.SetWriteDeadline(time.Now().Add(removedTimeout))
		}
	})
	use := &tokenUse{found, cancel}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inUse[use] = struct{}{}
	if !found.same(t.current().find(found.digest)) { // removed or changed after the check
		cancel(errTokenRemoved)
	}
	return r.WithContext(ctx), func() {
		t.mu.Lock()
		delete(t.inUse, use)
		t.mu.Unlock()
		cancel(nil)
	}
}

// tokenPoll is how often the file is read.
const tokenPoll = 500 * time.Millisecond

// run follows the file until ctx ends. A change takes effect once two readings agree, because a program may
// still be writing the file.
func (t *Tokens) run(ctx context.Context) {
	if t == nil || t.file == "" {
		return
	}
	tick := time.NewTicker(tokenPoll)
	defer tick.Stop()
	t.mu.Lock()
	used, last := reading{set: t.inFile}, reading{}
	t.mu.Unlock()
	for {
		var next reading
		kicked := false
		select {
		case <-tick.C:
			next = t.read()
		case <-t.kick:
			next, kicked = t.read(), true
		case <-ctx.Done():
			return
		}
		if !next.equal(used) && (kicked || next.equal(last)) {
			t.use(next)
			used = next
		}
		last = next
	}
}

// reading is what the file contains, or why it cannot be used.
type reading struct {
	set     tokenSet
	problem string
}

func (r reading) equal(o reading) bool { return r.problem == o.problem && slices.Equal(r.set, o.set) }

func (t *Tokens) read() reading {
	set, err := loadTokens(t.file)
	if err == nil && t.exposed.Load() {
		err = set.check()
	}
	if err != nil {
		return reading{problem: err.Error()}
	}
	return reading{set: set}
}

// use makes what the file contains valid, and logs what has changed.
func (t *Tokens) use(next reading) {
	if next.problem != "" {
		t.logger.Warn("the token file cannot be used; the previous tokens stay valid; correct the file, or stop mcptrack to refuse all clients", "err", next.problem)
		return
	}
	before := t.replace(next.set)
	t.logger.Info("the token file was read again", "new", t.current().without(before), "removed", before.without(t.current()))
}
