// Package completion caches what servers listed, and which of them were used, so that a
// shell can complete names without asking a server.
//
// The cache is one file of mode 0600 for each config. It holds names only, no contents and
// no secrets. Several processes may write it: the last one wins, and what another one has
// learned meanwhile is learned again by the next command. Everything is bounded, and a file
// that cannot be read or written is no error: completion is a convenience.
package completion

import (
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
)

// Bounds of the cached names: bytes of the file, names of one list, and completions for the
// arguments of one prompt or tool.
const (
	maxFile      = 4 << 20
	maxNames     = 2000
	maxArguments = 100
)

// Names is what is known of servers, by id.
type Names map[string]Server

// Server is what a server last listed.
type Server struct {
	// Names are the names, URIs and URI templates.
	Names map[catalog.Kind][]string `json:"names,omitempty"`
	// Arguments are completions of the arguments of prompts and tools, by the name of
	// the prompt or tool: "city=" and, where the values are known, "unit=metric".
	Arguments map[catalog.Kind]map[string][]string `json:"arguments,omitempty"`
	// Used identifies the program or URL that a command has used as this server. A
	// completion asks no other.
	Used string `json:"used,omitempty"`
}

// Load reads the file. It returns no names if the path is empty or the file cannot be read.
func Load(path string) Names {
	n := Names{}
	if path == "" {
		return n
	}
	f, err := os.Open(path)
	if err != nil {
		return n
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil || json.Unmarshal(data, &n) != nil {
		return Names{}
	}
	return n
}

// Update has change add to what the file holds. It does nothing if the path is empty.
func Update(path string, change func(Names)) {
	if path == "" {
		return
	}
	was := Load(path)
	n := was.clone()
	change(n)
	if reflect.DeepEqual(n, was) {
		return
	}
	data, err := json.Marshal(n)
	if err != nil || len(data) > maxFile || os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	_ = atomicfile.Write(path, 0o600, data)
}

func (n Names) clone() Names {
	out := Names{}
	for id, srv := range n {
		srv.Names, srv.Arguments = maps.Clone(srv.Names), maps.Clone(srv.Arguments)
		out[id] = srv
	}
	return out
}

// Learn records a server's list.
func (n Names) Learn(server string, kind catalog.Kind, list catalog.List) {
	list = list[:min(len(list), maxNames)]
	names := make([]string, 0, len(list))
	for _, it := range list {
		names = append(names, it.Key)
	}
	srv := n[server]
	if srv.Names == nil {
		srv.Names = map[catalog.Kind][]string{}
	}
	srv.Names[kind] = names
	if arguments := argumentsOf(kind, list); arguments != nil {
		if srv.Arguments == nil {
			srv.Arguments = map[catalog.Kind]map[string][]string{}
		}
		srv.Arguments[kind] = arguments
	}
	n[server] = srv
}

// Use records which program or URL a command has used as the server.
func (n Names) Use(srv config.Server) {
	of := n[srv.ID]
	of.Used = identity(srv)
	n[srv.ID] = of
}

// Used reports whether a command has used the server, and its entry has not changed since.
func (n Names) Used(srv config.Server) bool { return n[srv.ID].Used == identity(srv) }
