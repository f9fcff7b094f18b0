package commands

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// known is what completion offers without asking servers, by server id.
type known map[string]knownServer

// knownServer is what a server last listed.
type knownServer struct {
	// Names are the names, URIs and URI templates.
	Names map[catalog.Kind][]string `json:"names,omitempty"`
	// Arguments are completions of the arguments of prompts and tools, by the name of
	// the prompt or tool: "city=" and, where the values are known, "unit=metric".
	Arguments map[catalog.Kind]map[string][]string `json:"arguments,omitempty"`
	// Used identifies the program or URL that a command has used as this server. A
	// completion asks no other.
	Used string `json:"used,omitempty"`
}

// Bounds of the cached names: bytes of the file, and names of one list.
const (
	maxKnown      = 4 << 20
	maxKnownNames = 2000
)

// knownPath is the file with the cached names of a config's servers, "" if there is none.
func knownPath(env *Env, cfgPath string) string {
	dir := env.cacheDir()
	abs, err := filepath.Abs(cfgPath)
	if dir == "" || cfgPath == "" || err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(abs))
	return filepath.Join(dir, "catalog-"+hex.EncodeToString(sum[:8])+".json")
}

// loadKnown reads the cached names. It returns none if they cannot be read.
func loadKnown(env *Env, cfgPath string) known {
	k := known{}
	path := knownPath(env, cfgPath)
	if path == "" {
		return k
	}
	f, err := os.Open(path)
	if err != nil {
		return k
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxKnown))
	if err != nil || json.Unmarshal(data, &k) != nil {
		return known{}
	}
	return k
}

// save writes the names for the next completion if they differ from was. Errors are
// ignored: completion is a convenience.
func (k known) save(env *Env, cfgPath string, was known) {
	path := knownPath(env, cfgPath)
	if path == "" || reflect.DeepEqual(k, was) {
		return
	}
	data, err := json.Marshal(k)
	if err != nil || len(data) > maxKnown || os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	_ = atomicfile.Write(path, 0o600, data)
}

func (k known) clone() known {
	out := known{}
	for id, srv := range k {
		srv.Names, srv.Arguments = maps.Clone(srv.Names), maps.Clone(srv.Arguments)
		out[id] = srv
	}
	return out
}

// learn records a server's list.
func (k known) learn(server string, kind catalog.Kind, list catalog.List) {
	names := make([]string, 0, min(len(list), maxKnownNames))
	for _, it := range list[:min(len(list), maxKnownNames)] {
		names = append(names, it.Key)
	}
	srv := k[server]
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
	k[server] = srv
}

// remember caches the lists of the reports.
func remember(env *Env, cfgPath string, reports []session.Report) {
	was := loadKnown(env, cfgPath)
	k := was.clone()
	for _, r := range reports {
		for kind, list := range r.Lists {
			k.learn(r.Server.ID, kind, list)
		}
		if r.Err == nil {
			k.use(r.Server)
		}
	}
	k.save(env, cfgPath, was)
}

// rememberSnapshot caches the lists of a tracker's last snapshot.
func rememberSnapshot(env *Env, cfgPath string, snap *tracker.Snapshot) {
	was := loadKnown(env, cfgPath)
	k := was.clone()
	for _, srv := range snap.Servers {
		for kind, list := range srv.Lists {
			k.learn(srv.ID, kind, list)
		}
	}
	k.save(env, cfgPath, was)
}

// completing loads the config for a completion. It is empty after an error, and
// nothing is logged: both would garble the user's command line.
func completing(env *Env, g *globals) *config.Config {
	if g.config == "" {
		g.config = env.getenv("MCPTRACK_CONFIG")
	}
	cfg, err := g.load(env, slog.New(slog.DiscardHandler))
	if err != nil {
		return &config.Config{}
	}
	return cfg
}

func serverNames(cfg *config.Config) []string {
	var ids []string
	for _, srv := range cfg.Servers {
		if srv.Enabled && srv.Transport != config.TransportCatalog {
			ids = append(ids, srv.ID)
		}
	}
	return ids
}

func completeList(env *Env, g *globals) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		names := serverNames(completing(env, g))
		if len(args) == 0 {
			names = append(listKinds(), names...)
		}
		return choices(names, args)
	}
}

// completeServers completes a flag that takes server ids separated by commas.
func completeServers(env *Env, g *globals) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndexByte(typed, ',')+1]
		names := serverNames(completing(env, g))
		for i := range names {
			names[i] = before + names[i]
		}
		out, _ := choices(names, nil)
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// completeItems completes a server id, then names of the server's cached list.
func completeItems(env *Env, g *globals, kind catalog.Kind) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		cfg := completing(env, g)
		if len(args) == 0 {
			return choices(serverNames(cfg), nil)
		}
		return choices(loadKnown(env, cfg.Path)[args[0]].Names[kind], args[1:])
	}
}

// completeNames completes a flag with cached names of the server in args.
func completeNames(env *Env, g *globals, kind catalog.Kind) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		out, _ := choices(loadKnown(env, completing(env, g).Path)[args[0]].Names[kind], nil)
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// completeTypes completes a flag that takes event types separated by commas.
func completeTypes(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	var out []string
	for _, t := range event.Types() {
		out = append(out, before+string(t))
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
