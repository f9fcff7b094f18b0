package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// entry returns the entry of the config that limits what an MCP client sees, or nil if there is none.
func (c client) entry(cfg *config.Config) *config.Client {
	if c.Purpose != ipc.Attach || c.Join {
		return nil
	}
	return cfg.ClientFor(c.name, c.Folder, c.realFolder)
}

// asksForNames reports whether a config has clients that are known by what they call themselves.
func asksForNames(cfg *config.Config) bool {
	return slices.ContainsFunc(cfg.Clients, func(c config.Client) bool { return c.Folder == "" })
}

// maxNamed is the maximum size of a first message in which a client may name itself.
const maxNamed = 64 << 10

// clientName reads the first message of an MCP client from in. It returns what the client calls itself, and a reader that
// returns everything that in returns. A client that has sent nothing yet is counted, so that the daemon does not end.
func (d *Daemon) clientName(ctx context.Context, c *ipc.Conn, in io.Reader) (name string, all io.Reader) {
	d.mu.Lock()
	d.count(1)
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.count(-1)
		d.mu.Unlock()
	}()
	defer context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Now()) })()
	r := bufio.NewReaderSize(in, maxNamed)
	line, err := r.ReadSlice('\n')
	all = io.MultiReader(bytes.NewReader(bytes.Clone(line)), r)
	var m struct {
		Params struct {
			Info mcp.Implementation         `json:"clientInfo"` // of initialize
			Meta map[string]json.RawMessage `json:"_meta"`
		} `json:"params"`
	}
	if err != nil || json.Unmarshal(line, &m) != nil {
		return "", all
	}
	if raw := m.Params.Meta[mcp.MetaClientInfo]; raw != nil {
		_ = json.Unmarshal(raw, &m.Params.Info) // the name stays empty if it is no object
	}
	return m.Params.Info.Name, all
}
