package commands

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcptrack/mcptrack/commands/internal/completion"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
)

// namesPath is the file with the cached names of a config's servers, "" if there is none.
func namesPath(env *Env, cfgPath string) string {
	dir := env.cacheDir()
	abs, err := filepath.Abs(cfgPath)
	if dir == "" || cfgPath == "" || err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(abs))
	return filepath.Join(dir, "catalog-"+hex.EncodeToString(sum[:8])+".json")
}

func loadNames(env *Env, cfgPath string) completion.Names {
	return completion.Load(namesPath(env, cfgPath))
}

// remember caches the lists of the reports, for completion.
func remember(env *Env, cfgPath string, reports []session.Report) {
	completion.Update(namesPath(env, cfgPath), func(n completion.Names) {
		for _, r := range reports {
			for kind, list := range r.Lists {
				n.Learn(r.Server.ID, kind, list)
			}
			if r.Err == nil {
				n.Use(r.Server)
			}
		}
	})
}

// rememberSnapshot caches the lists of a tracker's last snapshot.
func rememberSnapshot(env *Env, cfgPath string, snap *status.Snapshot) {
	completion.Update(namesPath(env, cfgPath), func(n completion.Names) {
		for _, srv := range snap.Servers {
			for kind, list := range srv.Lists {
				n.Learn(srv.ID, kind, list)
			}
		}
	})
}

// rememberUse records that a command has used the server.
func rememberUse(env *Env, cfgPath string, srv config.Server) {
	completion.Update(namesPath(env, cfgPath), func(n completion.Names) { n.Use(srv) })
}

// completing loads the config for a completion. It is empty after an error, and
// nothing is logged: both would garble the user's command line.
func completing(env *Env, g *globals) *config.Config {
	if g.config == "" {
		g.config = env.getenv("MCPTRACK_CONFIG")
	}
	log := slog.New(slog.DiscardHandler)
	cfg, p, err := g.readConfig(env, log)
	if err != nil {
		return &config.Config{}
	}
	if _, trusted := p.everywhere(); trusted {
		return cfg
	}
	for _, e := range p.pending(cfg, log) { // no key that is pressed connects to these
		if i := slices.IndexFunc(cfg.Servers, func(s config.Server) bool { return s.Intent == e.intent }); i >= 0 {
			cfg.Servers[i].Unapproved = p.hint()
		}
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
		return choices(loadNames(env, cfg.Path)[args[0]].Names[kind], args[1:])
	}
}

// completeNames completes a flag with cached names of the server in args.
func completeNames(env *Env, g *globals, kind catalog.Kind) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		out, _ := choices(loadNames(env, completing(env, g).Path)[args[0]].Names[kind], nil)
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

// noFiles turns off the completion of files, which is cobra's default, for arguments and values
// of flags that name none.
func noFiles(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			_, chosen := cmd.GetFlagCompletionFunc(f.Name)
			if kind, _ := pflag.UnquoteUsage(f); !chosen && f.NoOptDefVal == "" && kind != "FILE" && kind != "DIR" {
				_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions)
			}
		})
	}
}
