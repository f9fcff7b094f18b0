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
	maxPins     = 10_000           // tools of one server: the maximum length of a list
	maxPinsFile = 16 << 20         // bytes; enough for maxPins tools with the longest names
	pinsVersion = 1                // of the file's format
	pinsLock    = time.Second      // how long a gateway waits for another gateway that writes the same file
	pinsPoll    = time.Millisecond // between two attempts to lock it
)

// Errors of tools that [Pins] refuse.
var (
	errChanged  = errors.New("it has changed since it was first listed, and its pin was not removed")
	errManyPins = fmt.Errorf("its server has listed more than %d tools in total; no further tools are pinned", maxPins)
)

// Pins remember the digest of each tool when its server first listed it. Each server has its
// own file, so that no server can affect the pins of another. Several processes may use the
// same files: if two processes see a new tool, the first to store it pins it. Changes by
// another process take effect at the next merge.
//
// A server's pins are kept under its id, whatever its config entry contains: a replaced server
// must not be able to change its tools.
//
// Pins are not safe for concurrent use. A gateway uses them in the goroutine of [Gateway.Run].
type Pins struct {
	dir     string // "": nothing is stored
	config  string
	servers map[string]*serverPins // by id, filled on first use
}

// NewPins returns the pins that a directory holds for the servers of a config. The directory is
// created when there is something to store. If dir is empty, pins end with the process. config
// is the path of the config; it separates equal ids of different configs.
func NewPins(dir, config string) *Pins {
	if real, err := filepath.EvalSymlinks(config); err == nil {
		config = real
	}
	if full, err := filepath.Abs(config); err == nil {
		config = full
	}
	return &Pins{dir: dir, config: config, servers: map[string]*serverPins{}}
}

// serverPins are the pins of one server.
type serverPins struct {
	path    string                    // of the file; "" if nothing is stored
	head    pinsFile                  // the file's content, without the pins
	stored  map[string]catalog.Digest // by tool; stored in the file
	fresh   map[string]catalog.Digest // by tool; not stored yet
	info    fs.FileInfo               // of the file when it was read; nil: there was no file
	version int                       // of stored; incremented by each read
	err     error                     // why the file cannot be read; if set, no tool is listed
	stuck   bool                      // the last attempt to store fresh failed
}

// pinsFile is the content of a file.
type pinsFile struct {
	Version int                       `json:"version"`
	Config  string                    `json:"config"`
	Server  string                    `json:"server"`
	Tools   map[string]catalog.Digest `json:"tools"`
}

// of returns the pins of a server. It reads the file if the file has changed.
func (p *Pins) of(server string) *serverPins {
	pins := p.servers[server]
	if pins == nil {
		pins = &serverPins{head: pinsFile{Version: pinsVersion, Config: p.config, Server: server}, stored: map[string]catalog.Digest{}, fresh: map[string]catalog.Digest{}}
		p.servers[server] = pins
		if p.dir != "" {
			sum := sha256.Sum256([]byte(p.config + "\x00" + server))
			pins.path = filepath.Join(p.dir, hex.EncodeToString(sum[:16])+".json")
		}
	}
	pins.refresh()
	return pins
}

// refresh reads the file if it has changed since the last read.
func (p *serverPins) refresh() {
	if p.path == "" {
		return
	}
	info, err := os.Stat(p.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if p.info != nil || p.err != nil {
			p.load(map[string]catalog.Digest{}, nil)
		}
	case err == nil && p.err == nil && p.info != nil && os.SameFile(info, p.info) && info.ModTime().Equal(p.info.ModTime()) && info.Size() == p.info.Size():
	default:
		p.load(p.read())
	}
}

// load replaces the stored pins by the pins that were read from the file.
func (p *serverPins) load(stored map[string]catalog.Digest, err error) {
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
		err = errors.New("it is not a pin file")
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

// current returns the version that a checked list must have to be reused; -1, which no list
// has, while there are pins to store. p may be nil.
func (p *serverPins) current() int {
	switch {
	case p == nil:
		return 0
	case len(p.fresh) > 0:
		return -1
	}
	return p.version
}

// pin pins the tools that have no pin yet, as far as there is room, and stores the pins. If
// that fails, the tools are pinned in this process, and the next merge retries.
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
		log.Warn("cannot store the pins of a server; a restart of the gateway loses the pins of its new tools", "server", printable.Line(p.head.Server, 128), "err", printable.Reason(err, 500))
	}
	p.stuck = err != nil
}

// change reads the file, calls change with its pins, and writes the file if change reports that
// it changed them. A lock keeps other processes from changing the file meanwhile.
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
		p.load(tools, nil)
	}
	return err
}

// refuse returns why a tool must not be listed; nil if it may be listed.
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

// Forget removes the pin of a server's tool, or all pins of the server if tool is empty, so that
// the next list is pinned. Running gateways notice it. It returns the number of pins removed.
func (p *Pins) Forget(ctx context.Context, server, tool string) (removed int, err error) {
	pins := p.of(server)
	if pins.err != nil || pins.info == nil {
		return 0, pins.err
	}
	err = pins.change(ctx, func(tools map[string]catalog.Digest) bool {
		removed = len(tools)
		maps.DeleteFunc(tools, func(name string, _ catalog.Digest) bool { return tool == "" || name == tool })
		removed -= len(tools)
		return removed > 0
	})
	return removed, err
}
