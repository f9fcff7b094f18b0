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
	maxPins     = 10_000           // pins per server; equals the maximum length of a list
	maxPinsFile = 16 << 20         // in bytes; enough for maxPins tools with names of maximum length
	pinsVersion = 1                // version of the file format
	pinsLock    = time.Second      // how long to wait for another gateway that is writing the same file
	pinsPoll    = time.Millisecond // delay between two attempts to lock the file
)

// Reasons why [Pins] do not allow a tool to be listed.
var (
	errChanged  = errors.New("it has changed since it was first listed, and its pin was not removed")
	errManyPins = fmt.Errorf("its server has listed more than %d tools in total; no further tools are pinned", maxPins)
)

// Pins store the digest that each tool had when its server first listed it. Each server has a
// separate file, so that no server can affect the pins of another. Several processes may use the
// same files: if two processes detect a new tool, the first one to store its digest pins it.
// Changes by another process take effect at the next merge.
//
// The pins of a server are stored under its id, regardless of the rest of its config entry:
// replacing a server must not allow its tools to change.
//
// Pins are not safe for concurrent use. A gateway uses them in the goroutine of [Gateway.Run].
type Pins struct {
	dir     string // directory of the files; empty if nothing is stored
	config  string
	servers map[string]*serverPins // keyed by server id; filled on first use
}

// NewPins returns the pins stored in a directory for the servers in a config. The directory is
// created when the first pin is stored. If dir is empty, pins are lost when the process ends.
// config is the path of the config file; it distinguishes equal server ids in different configs.
func NewPins(dir, config string) *Pins {
	if real, err := filepath.EvalSymlinks(config); err == nil {
		config = real
	}
	if full, err := filepath.Abs(config); err == nil {
		config = full
	}
	return &Pins{dir: dir, config: config, servers: map[string]*serverPins{}}
}

// serverPins holds the pins of one server.
type serverPins struct {
	path    string                    // path of the file; empty if nothing is stored
	head    pinsFile                  // content of the file, without the pins
	stored  map[string]catalog.Digest // digests stored in the file, keyed by tool
	fresh   map[string]catalog.Digest // digests not stored yet, keyed by tool
	info    fs.FileInfo               // file info at the last read; nil if there was no file
	version int                       // version of stored; incremented by each read
	err     error                     // why the file is unreadable; if set, no tool is listed
	stuck   bool                      // the last attempt to store the fresh digests failed
}

// pinsFile is the JSON content of a file with pins.
type pinsFile struct {
	Version int                       `json:"version"`
	Config  string                    `json:"config"`
	Server  string                    `json:"server"`
	Tools   map[string]catalog.Digest `json:"tools"`
}

// of returns the pins of a server. It reads their file again if the file has changed.
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

// refresh reads the file again if it has changed since the last read.
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

// load replaces the stored pins with the pins that were read from the file.
func (p *serverPins) load(stored map[string]catalog.Digest, err error) {
	p.version++
	p.err, p.info = err, nil
	if err != nil {
		return
	}
	p.stored = stored
	p.info, _ = os.Stat(p.path)
}

// read reads the pins from the file.
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
		err = errors.New("the file is damaged or was written by a newer version of mcptrack")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read its pins from %s: %w", printable.Line(p.path, 512), printable.Unnamed(err))
	}
	return content.Tools, nil
}

// current returns the pins version for which a validated list can be reused. While there are pins
// to store it returns -1, which matches no list. p may be nil.
func (p *serverPins) current() int {
	switch {
	case p == nil:
		return 0
	case len(p.fresh) > 0:
		return -1
	}
	return p.version
}

// pin pins all tools that have no pin yet, up to the limit, and stores the pins. If storing fails,
// the tools are pinned only in this process, and the next merge retries.
func (p *serverPins) pin(ctx context.Context, tools []item, log *slog.Logger) {
	if p.err != nil {
		return // no tool is listed in this case
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
		log.Warn("cannot store the pins of a server; the pins of its new tools will be lost when the gateway restarts", "server", printable.Line(p.head.Server, 128), "err", printable.Reason(err, 500))
	}
	p.stuck = err != nil
}

// change reads the file, calls the function change with its pins, and writes the file if the
// function returns true. A lock prevents other processes from changing the file in the meantime.
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

// refuse returns the reason why a tool must not be listed, or nil if it may be listed.
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

// Forget removes the pin of a tool, or all pins of the server if tool is empty, so that the tools
// are pinned again when they are next listed. Running gateways detect the change. Forget returns
// the number of pins that it removed.
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
