// Package completion caches the names that servers listed, so that a shell can complete names without
// asking a server.
//
// The cache is one file per config, with mode 0600. It contains only names, no contents or secrets.
// Several processes may write it: the last write wins, and later commands relearn any names that
// were lost. All sizes are limited. Failing to read or write the file is not an error, because
// completion is only a convenience.
package completion

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/catalog"
)

// Limits on the size of the file in bytes, the names in one list, and the completions for the
// arguments of one prompt or tool.
const (
	maxFile      = 4 << 20
	maxNames     = 2000
	maxArguments = 100
)

// Names contains the cached names of servers, by server id.
type Names map[string]ServerNames

// ServerNames contains the cached names of one server.
type ServerNames struct {
	// Names contains item names, resource URIs and URI templates.
	Names map[catalog.Kind][]string `json:"names,omitempty"`
	// Arguments contains completions for the arguments of prompts and tools, by the name of the
	// prompt or tool: "city=", or "unit=metric" for a known value.
	Arguments map[catalog.Kind]map[string][]string `json:"arguments,omitempty"`
}

// Load reads the cache file. It returns no names if path is empty or the file cannot be read.
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

// Update calls change to modify the cached names. It does nothing if path is empty.
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

// Learn records a list that a server returned.
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

// argumentsOf returns completions for the arguments of prompts and tools by name, or nil for other
// kinds of items.
func argumentsOf(kind catalog.Kind, list catalog.List) map[string][]string {
	if kind != catalog.Prompts && kind != catalog.Tools {
		return nil
	}
	out := map[string][]string{}
	for _, it := range list {
		var begins []string
		if kind == catalog.Prompts {
			begins = promptArguments(it)
		} else {
			begins = toolArguments(it)
		}
		if len(begins) > 0 {
			out[it.Key] = begins[:min(len(begins), maxArguments)]
		}
	}
	return out
}

func promptArguments(it catalog.Item) []string {
	var p struct {
		Arguments []struct {
			Name string `json:"name"`
		} `json:"arguments"`
	}
	if json.Unmarshal(it.Raw, &p) != nil {
		return nil
	}
	var begins []string
	for _, a := range p.Arguments {
		begins = append(begins, a.Name+"=")
	}
	return begins
}

// toolArguments returns completions for the arguments of a tool, including the values of
// enumerations and booleans.
func toolArguments(it catalog.Item) []string {
	var t struct {
		InputSchema struct {
			Properties map[string]struct {
				Type any   `json:"type"`
				Enum []any `json:"enum"`
			} `json:"properties"`
		} `json:"inputSchema"`
	}
	if json.Unmarshal(it.Raw, &t) != nil {
		return nil
	}
	properties := t.InputSchema.Properties
	var begins []string
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		values := properties[name].Enum
		if len(values) == 0 && properties[name].Type == "boolean" {
			values = []any{true, false}
		}
		begins = append(begins, name+"=")
		for _, v := range values {
			begins = append(begins, fmt.Sprintf("%s=%v", name, v))
		}
	}
	return begins
}
