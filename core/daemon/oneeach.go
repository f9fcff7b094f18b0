package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock/launch"
)

// OneEachFile is the name of the file in the daemon's data directory for [Options.OneEach].
const OneEachFile = "one-each.json"

// maxOneEach is how many servers are remembered. The oldest are forgotten.
const maxOneEach = 1000

// OneEach remembers the servers that turned out to need a process for each client: because of what they
// ask, several clients cannot share one. A server is known by its package, or else by its command line or URL. Its
// methods are safe for concurrent use.
type OneEach struct {
	file string
	mu   sync.Mutex
	all  []string // oldest first
}

// ReadOneEach reads what a file remembers. A file that does not exist remembers nothing, and neither does
// the name "", which nothing is written to.
func ReadOneEach(file string) (*OneEach, error) {
	o := &OneEach{file: file}
	if file == "" {
		return o, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(text, &o.all)
}

// Has reports whether a server needs a process for each client.
func (o *OneEach) Has(srv *config.Server) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.all, packageOf(srv))
}

// Add remembers a server.
func (o *OneEach) Add(srv *config.Server) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := packageOf(srv)
	if slices.Contains(o.all, of) {
		return nil
	}
	o.all = append(o.all, of)
	o.all = o.all[max(0, len(o.all)-maxOneEach):]
	if o.file == "" {
		return nil
	}
	text, err := json.MarshalIndent(o.all, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(o.file, 0o600, append(text, '\n'))
}

// packageOf returns what a server is known by. Command lines and URLs may contain secrets, so only their
// hash is stored.
func packageOf(srv *config.Server) string {
	line := append([]string{srv.Command}, srv.Args...)
	if srv.Transport != config.TransportStdio {
		line = []string{srv.URL.Reveal()}
	} else if p, ok := launch.Named(line); ok {
		return string(p.Type) + " " + p.Name
	}
	sum := sha256.Sum256([]byte(strings.Join(line, "\x00")))
	return "sha256 " + hex.EncodeToString(sum[:16])
}
