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
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// known is what completion offers without asking a server, by server.
type known map[string]knownServer

// knownServer is what was listed of a server last.
type knownServer struct {
	// Names are the names, URIs and URI templates.
	Names map[catalog.Kind][]string `json:"names,omitempty"`
	// Arguments are how an argument of a prompt or tool may begin, by its name: "city="
	// and, where the values are known, "unit=metric".
	Arguments map[catalog.Kind]map[string][]string `json:"arguments,omitempty"`
	// Used tells which program or URL a command has used as this server: only that
	// one is asked while a line is being completed.
	Used string `json:"used,omitempty"`
}

// maxKnown bounds the file of known names, in bytes, and the names of one list.
const (
	maxKnown      = 4 << 20
	maxKnownNames = 2000
)

// knownPath is where the names of a config's servers are kept; "" if nowhere.
func knownPath(env *Env, cfgPath string) string {
	dir := env.cacheDir()
	abs, err := filepath.Abs(cfgPath)
	if dir == "" || cfgPath == "" || err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(abs))
	return filepath.Join(dir, "catalog-"+hex.EncodeToString(sum[:8])+".json")
}

// loadKnown reads the kept names; none if there are none.
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

// save keeps the names for the next completion, if they differ from what is kept.
// That it could not is no reason to fail: completion is a convenience.
func (k known) save(env *Env, cfgPath string, was known) {
	path := knownPath(env, cfgPath)
	if path == "" || reflect.DeepEqual(k, was) {
		return
	}
	data, err := json.Marshal(k)
	if err != nil || len(data) > maxKnown || os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".catalog-*")
	if err != nil {
		return
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(data)
	if tmp.Close() == nil && err == nil {
		_ = os.Rename(tmp.Name(), path)
	}
}

func (k known) clone() known {
	out := known{}
	for id, srv := range k {
		srv.Names, srv.Arguments = maps.Clone(srv.Names), maps.Clone(srv.Arguments)
		out[id] = srv
	}
	return out
}

// learn notes a server's list.
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

// remember keeps what list was told.
func remember(env *Env, cfgPath string, reports []tracker.Report) {
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

// rememberSnapshot keeps what a tracker knew at its end.
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

// completing is the config for a completion: errors mean that there is nothing to
// offer, and logs would spoil the user's line.
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

// choices are the completions that fit and are printable, each once.
func choices(names []string, taken []string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, n := range names {
		if n == printable.Line(n, 0) && !slices.Contains(taken, n) {
			out = append(out, n)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
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
			names = append([]string{"servers", "resources", "templates", "prompts", "tools"}, names...)
		}
		return choices(names, args)
	}
}

// completeServers completes a flag that takes ids, separated by commas.
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

// completeItems completes a server, then names of its last known list.
func completeItems(env *Env, g *globals, kind catalog.Kind) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		cfg := completing(env, g)
		if len(args) == 0 {
			return choices(serverNames(cfg), nil)
		}
		return choices(loadKnown(env, cfg.Path)[args[0]].Names[kind], args[1:])
	}
}

// completeNames completes a flag with names of the server named in args.
func completeNames(env *Env, g *globals, kind catalog.Kind) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		out, _ := choices(loadKnown(env, completing(env, g).Path)[args[0]].Names[kind], nil)
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// completeTypes completes a flag that takes types of events.
func completeTypes(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	var out []string
	for _, t := range event.Types() {
		out = append(out, before+string(t))
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
