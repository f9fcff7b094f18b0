package commands

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/uritemplate"
)

// completePromptArgument completes --arg of prompt: names from the cache, and values
// from the server.
func completePromptArgument(env *Env, g *globals, given *[]string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) < 2 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		cfg := completing(env, g)
		begins := loadNames(env, cfg.Path)[args[0]].Arguments[catalog.Prompts][args[1]]
		return completeArgument(begins, typed, *given, func(name, value string, known map[string]string) []string {
			return askValues(env, cfg, args[0], session.Reference{Prompt: args[1]}, name, value, known)
		})
	}
}

// completeToolArgument completes --arg of call, from the tool's schema.
func completeToolArgument(env *Env, g *globals, given *[]string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) < 2 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		begins := loadNames(env, completing(env, g).Path)[args[0]].Arguments[catalog.Tools][args[1]]
		return completeArgument(begins, typed, *given, nil)
	}
}

// completeParameter completes --param of read: the variables of the template, and
// values from the server.
func completeParameter(env *Env, g *globals, opts *readOptions) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		variables, err := uritemplate.Variables(opts.template)
		if len(args) < 1 || opts.template == "" || err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var begins []string
		for _, name := range variables {
			begins = append(begins, name+"=")
		}
		return completeArgument(begins, typed, opts.params, func(name, value string, known map[string]string) []string {
			return askValues(env, completing(env, g), args[0], session.Reference{Template: opts.template}, name, value, known)
		})
	}
}

// completeArgument completes NAME=VALUE: first the name, if it was not given yet, then
// the value, from begins or else from ask.
func completeArgument(begins []string, typed string, given []string, ask func(name, value string, given map[string]string) []string) ([]string, cobra.ShellCompDirective) {
	known := map[string]string{}
	for _, g := range given {
		if name, value, ok := strings.Cut(g, "="); ok {
			known[name] = value
		}
	}
	name, value, hasName := strings.Cut(typed, "=")
	var fitting []string
	for _, b := range begins {
		of, v, _ := strings.Cut(b, "=")
		if _, taken := known[of]; hasName && of == name && v != "" || !hasName && v == "" && !taken {
			fitting = append(fitting, b)
		}
	}
	if hasName && len(fitting) == 0 && ask != nil {
		delete(known, name)
		for _, v := range ask(name, value, known) {
			fitting = append(fitting, name+"="+v)
		}
	}
	out, directive := choices(fitting, nil)
	if !hasName {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return out, directive
}

// askingTime bounds how long a completion waits for a server.
const askingTime = 800 * time.Millisecond

// askValues asks a server for the values of an argument. It only asks a server that a
// command has used before, and whose entry has not changed since and is approved: pressing a key
// must not start a program or open a URL that the user never has.
func askValues(env *Env, cfg *config.Config, id string, ref session.Reference, name, value string, given map[string]string) []string {
	srv, ok := cfg.Server(id)
	if !ok || !srv.Enabled || srv.Unusable() != nil || !loadNames(env, cfg.Path).Used(srv) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), askingTime)
	defer cancel()
	dial := env.Dial
	if dial == nil {
		dial = session.Dial
	}
	s, err := dial(ctx, srv, session.Options{ClientVersion: env.Version, ConnectTimeout: askingTime, OneShot: true, Environ: env.LookupEnv,
		Logins: env.logins(&globals{}, "", slog.New(slog.DiscardHandler))})
	if err != nil {
		return nil
	}
	defer func() { _ = s.Close() }()
	c, err := s.Complete(ctx, ref, name, value, given)
	if err != nil {
		return nil
	}
	return c.Values
}
