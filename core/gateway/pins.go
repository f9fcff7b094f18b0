package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	maxPins     = 10_000           // tools of one server: as many as one list may have
	maxPinsFile = 16 << 20         // bytes; maxPins of the longest names need less
	pinsVersion = 1                // of the file's format
	pinsLock    = time.Second      // how long a gateway waits for another that writes the same file
	pinsPoll    = time.Millisecond // between two attempts to lock it
)

// Errors of tools that [Pins] refuse.
var (
	errChanged  = errors.New("it has changed since it was first listed, and its pin was not removed")
	errManyPins = fmt.Errorf("its server has listed more than %d tools in all; no more are pinned", maxPins)
)

// Pins remember the digest of each tool when its server first listed it. Each server has a
// file of its own, so that no server can affect the pins of another. Several processes may
// use the same files: of two that see a new tool, the first one to store it pins it. What
// another process stores or forgets is noticed at the next merge.
//
// A server's pins are kept under its id whatever its entry in the config says: a server
// that was replaced must not be able to change its tools.
//
// Only one goroutine may use Pins, which for a gateway is that of [Gateway.Run].
type Pins struct {
	dir     string // "": nothing is stored
	config  string
	servers map[string]*serverPins // by id, from the first use of a server's pins
}

// NewPins returns the pins that a directory has of the servers of a config. The directory is
// created when there is something to store. If dir is empty, pins end with the process. config
// is the path of the config, which keeps equal ids of different configs apart.
func NewPins(dir, config string) *Pins {
	if real, err := filepath.EvalSymlinks(config); err == nil {
		config = real
	}
	if full, err := filepath.Abs(config); err == nil {
		config = full
	}
	return &Pins{dir: dir, config: config, servers: map[string]*serverPins{}}
}

// pinned are the pins of one server.
type serverPins struct {
	path    string                    // of the file; "": there is none
	head    pinsFile                  // what the file says besides the pins
	stored  map[string]catalog.Digest // by tool; what is in the file
	fresh   map[string]catalog.Digest // by tool; what is not in the file yet
	info    fs.FileInfo               // of the file that stored is from; nil: there was none
	version int                       // of stored: it grows with each reading
	err     error                     // why the file cannot be read; then no tool is listed
	stuck   bool                      // the last attempt to store fresh failed
}

// pinsFile is the content of a file.
type pinsFile struct {
	Version int                       `json:"version"`
	Config  string                    `json:"config"`
	Server  string                    `json:"server"`
	Tools   map[string]catalog.Digest `json:"tools"`
}

// of returns the pins of a server. It reads the file if that has changed.
func (p *Pins) of(server string) *serverPins {
	own := p.servers[server]
	if own == nil {
		own = &serverPins{head: pinsFile{Version: pinsVersion, Config: p.config, Server: server}, stored: map[string]catalog.Digest{}, fresh: map[string]catalog.Digest{}}
		p.servers[server] = own
		if p.dir != "" {
			sum := sha256.Sum256([]byte(p.config + "\x00" + server))
			own.path = filepath.Join(p.dir, hex.EncodeToString(sum[:16])+".json")
		}
	}
	own.refresh()
	return own
}

// refresh reads the file if it is not the one that was read last.
func (p *serverPins) refresh() {
	if p.path == "" {
		return
	}
	info, err := os.Stat(p.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if p.info != nil || p.err != nil {
			p.took(map[string]catalog.Digest{}, nil)
		}
	case err == nil && p.err == nil && p.info != nil && os.SameFile(info, p.info) && info.ModTime().Equal(p.info.ModTime()) && info.Size() == p.info.Size():
	default:
		p.took(p.read())
	}
}

// took replaces what is stored by what was read from the file.
func (p *serverPins) took(stored map[string]catalog.Digest, err error) {
	p.version++
	p.err, p.info = err, nil
	if err != nil {
		return
	}
	p.stored = stored
	p.info, _ = os.Stat(p.path)
}

// read reads the file.
func (p *serverPins) read() (map[string]catalog.Digest, error) {
	info, err := os.Stat(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]catalog.Digest{}, nil
	}
	var data []byte
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxPinsFile) {
		err = errors.New("it is not a file of pins")
	}
	if err == nil {
		data, err = os.ReadFile(p.path)
	}
	var content pinsFile
	if err == nil && (json.Unmarshal(data, &content) != nil || content.Version != pinsVersion || content.Tools == nil) {
		err = errors.New("it is damaged, or from a newer mcptrack")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read its pins from %s: %w", printable.Line(p.path, 512), printable.Unnamed(err))
	}
	return content.Tools, nil
}

// current returns the version of the pins with which a list must have been checked; -1, which
// no list has, while there are pins to store. p may be nil.
func (p *serverPins) current() int {
	switch {
	case p == nil:
		return 0
	case len(p.fresh) > 0:
		return -1
	}
	return p.version
}

// pin pins the tools that have no pin yet, as far as there is room, and stores them. If they
// cannot be stored, they are pinned in this process, and the next merge tries again.
func (p *serverPins) pin(ctx context.Context, tools []item, log *slog.Logger) {
	if p.err != nil {
		return // nothing is listed
	}
	for _, it := range tools {
		_, stored := p.stored[it.key]
		_, fresh := p.fresh[it.key]
		if !stored && !fresh && len(p.stored)+len(p.fresh) < maxPins {
			p.fresh[it.key] = it.digest
		}
	}
	if len(p.fresh) == 0 {
		return
	}
	err := p.change(ctx, func(tools map[string]catalog.Digest) (changed bool) {
		for name, digest := range p.fresh {
			if _, known := tools[name]; !known && len(tools) < maxPins {
				tools[name], changed = digest, true
			}
		}
		return changed
	})
	switch {
	case err == nil:
		clear(p.fresh)
	case !p.stuck && ctx.Err() == nil:
		log.Warn("cannot store the pins of a server; a restart of the gateway forgets its new tools", "server", printable.Line(p.head.Server, 128), "err", printable.Reason(err, 500))
	}
	p.stuck = err != nil
}

// change reads the file, calls change with the pins in it, and writes the file if change
// reports that it changed them. No other process changes the file meanwhile.
func (p *serverPins) change(ctx context.Context, change func(tools map[string]catalog.Digest) bool) error {
	if p.path == "" {
		change(p.stored)
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(p.path), 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pinsLock)
	defer cancel()
	lock := flock.New(p.path+".lock", flock.SetPermissions(0o600))
	defer func() { _ = lock.Close() }()
	if _, err := lock.TryLockContext(ctx, pinsPoll); err != nil {
		return fmt.Errorf("lock %s: %w", printable.Line(p.path, 512), printable.Unnamed(err))
	}
	tools, err := p.read()
	if err == nil && change(tools) {
		content := p.head
		content.Tools = tools
		var data []byte
		if data, err = printable.Marshal(content); err == nil {
			err = atomicfile.Replace(p.path, 0o600, data, []byte("\n"))
		}
	}
	if err == nil {
		p.took(tools, nil)
	}
	return err
}

// refuse returns why a tool must not be listed, nil if it may.
func (p *serverPins) refuse(it item) error {
	if p.err != nil {
		return p.err
	}
	first, known := p.stored[it.key]
	if !known {
		first, known = p.fresh[it.key]
	}
	switch {
	case !known:
		return errManyPins
	case first != it.digest:
		return errChanged
	}
	return nil
}

// Forget removes the pin of a server's tool, or all pins of a server if tool is empty, so that
// what the server lists next is pinned. Gateways that are running notice it. It returns how many
// pins there were.
func (p *Pins) Forget(ctx context.Context, server, tool string) (removed int, err error) {
	own := p.of(server)
	if own.err != nil || own.info == nil {
		return 0, own.err
	}
	err = own.change(ctx, func(tools map[string]catalog.Digest) bool {
		removed = len(tools)
		maps.DeleteFunc(tools, func(name string, _ catalog.Digest) bool { return tool == "" || name == tool })
		removed -= len(tools)
		return removed > 0
	})
	return removed, err
}
