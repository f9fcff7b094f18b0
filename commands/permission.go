package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/reload"
	"github.com/mcptrack/mcptrack/core/trust"
)

// trustKey is the environment variable with the folders whose configs are trusted.
const trustKey = "MCPTRACK_TRUST"

// permission knows what the user approved of one config. A config that was found in a folder may have
// been written by anybody: what it would run or send needs the user's approval. One that the user
// named, or that lies where only the user's own configs lie, needs none.
type permission struct {
	env    *Env
	g      *globals
	path   string // of the config
	found  bool   // the config was found in folder
	folder string // absolute
	store  *trust.Store
	said   map[string]bool // digests that the user approved just now
	unread bool            // the config refers to the keyring, which was not read
}

// permission returns what is known of the approval of the config at path, which configPath returned.
func (g *globals) permission(env *Env, path string) (*permission, error) {
	p := &permission{env: env, g: g, path: path, store: env.approvals(), said: map[string]bool{}}
	opts := g.configOptions(env)
	folder, err := filepath.Abs(opts.Workspace)
	p.folder, p.found = folder, g.config == "" && !config.IsUsers(path, opts)
	return p, err
}

// readApproved reads the config. The keyring, which may ask its user to unlock it, is read only for
// a config that is approved.
func (p *permission) readApproved(log *slog.Logger) (*config.Config, error) {
	cfg, err := p.read(log, !p.found)
	if err != nil || !p.found || !usesKeyring(cfg) {
		return cfg, err
	}
	_, trusted := p.everywhere()
	if p.unread = len(p.pending(cfg, log)) > 0 && !p.g.trust && !trusted; p.unread {
		return cfg, nil
	}
	return p.read(log, true)
}

func (p *permission) read(log *slog.Logger, withKeyring bool) (*config.Config, error) {
	opts := p.g.configOptions(p.env)
	if !withKeyring {
		opts.Keyring = nil
	}
	cfg, problems := config.Load(p.path, opts)
	if cfg == nil {
		return nil, invalidConfig(p.path, problems)
	}
	for _, problem := range problems {
		level := slog.LevelInfo
		if problem.Code == config.CodeInsecure {
			level = slog.LevelWarn
		}
		log.Log(context.Background(), level, "config", "problem", problem.String())
	}
	return cfg, nil
}

func usesKeyring(cfg *config.Config) bool {
	return slices.ContainsFunc(entries(cfg), func(e entry) bool {
		return slices.ContainsFunc(e.intent.Uses, func(u config.Use) bool { return u.Kind == config.UseKeyring })
	})
}

// approvals is the store of the user's approvals.
func (e *Env) approvals() *trust.Store {
	dir := e.stateDir()
	if dir != "" {
		dir = filepath.Join(dir, "trust")
	}
	return trust.New(dir)
}

// entry is a server or webhook of a config that would be used.
type entry struct {
	kind    trust.Kind
	name    string // of the server; of a webhook its origin
	verb    string // what happens: run, contact, send
	line    string // the command or the address in one line, as the config writes it, without credentials
	host    string // that is contacted, as far as the config writes it
	changed bool   // another version of it was approved
	intent  *config.Intent
}

// entries returns all entries of a config that would be used. Nothing in them but the intents comes
// from the values of references.
func entries(cfg *config.Config) (all []entry) {
	for _, srv := range cfg.Servers {
		switch {
		case !srv.Enabled || srv.Intent == nil:
		case srv.Transport == config.TransportStdio:
			command, args, _ := srv.Intent.Command()
			written := config.Server{Program: config.Program{Command: command, Args: args}}
			all = append(all, entry{kind: trust.Server, name: srv.ID, verb: "run", line: written.CommandLine(), intent: srv.Intent})
		default:
			origin, path := splitURL(srv.Intent.URL())
			all = append(all, entry{kind: trust.Server, name: srv.ID, verb: "contact", line: origin + path, host: hostOf(origin), intent: srv.Intent})
		}
	}
	for _, w := range cfg.Webhooks {
		if w.Intent == nil {
			continue
		}
		origin, _ := splitURL(w.Intent.URL()) // the rest may be as secret as a token
		all = append(all, entry{kind: trust.Webhook, name: origin, verb: "send events to", line: origin, host: hostOf(origin), intent: w.Intent})
	}
	return all
}

// splitURL splits a URL that may have references into the scheme and host, without user and
// password, and the path, without query and credentials.
func splitURL(raw string) (origin, path string) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return raw[:min(len(raw), 200)], "" // a reference
	}
	end := strings.IndexAny(rest+"/", "/\\?#")
	host, path := rest[:end], rest[end:]
	path, _, _ = strings.Cut(path, "?")
	for _, span := range slices.Backward(credential.FindURL("https://h" + path)) {
		if from := span.From - len("https://h"); from >= 0 {
			path = path[:from] + "[secret]" + path[span.To-len("https://h"):]
		}
	}
	return scheme + "://" + host[strings.LastIndexByte(host, '@')+1:], path
}

// hostOf returns the host of an origin, in ASCII.
func hostOf(origin string) string {
	_, host, _ := strings.Cut(origin, "://")
	return strings.Trim(strconv.QuoteToASCII(host), `"`)
}

// everywhere reports whether the folder is trusted, whatever its config says, and which variable
// says so.
func (p *permission) everywhere() (because string, ok bool) {
	folder, err := trust.Resolved(p.folder)
	if err != nil {
		folder = p.folder
	}
	for _, dir := range filepath.SplitList(p.env.getenv(trustKey)) {
		if !filepath.IsAbs(dir) {
			continue // a folder that depends on where a command runs is none that the user chose
		}
		if dir, err = trust.Resolved(dir); err != nil {
			continue
		}
		if inside, err := filepath.Rel(dir, folder); err == nil && filepath.IsLocal(inside) {
			return trustKey, true
		}
	}
	if v := p.env.getenv("CI"); v == "true" || v == "1" {
		return "CI", true
	}
	return "", false
}

// pending returns the entries that need approval and have none.
func (p *permission) pending(cfg *config.Config, log *slog.Logger) []entry {
	if !p.found {
		return nil
	}
	approved, err := p.store.Approved(p.folder)
	if err != nil {
		log.Warn("cannot read the approvals of this folder; nothing of it is approved", "err", err)
	}
	digests := approved.Digests()
	var pending []entry
	for _, e := range entries(cfg) {
		if digests[e.intent.Digest] || p.said[e.intent.Digest] {
			continue
		}
		e.changed = approved.Knows(e.kind, e.name)
		pending = append(pending, e)
	}
	return pending
}

// require returns nil once everything that the config would run or send is approved: already, by a
// flag or variable, or because the user says so now.
func (p *permission) require(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	pending := p.pending(cfg, log)
	if len(pending) == 0 || p.g.trust {
		return nil
	}
	because, trusted := p.everywhere()
	if trusted && because == "CI" && !p.g.quiet {
		var lines []string
		for _, e := range pending {
			lines = append(lines, e.summary())
		}
		fmt.Fprintf(p.env.Err, "mcptrack: trusting %s because CI is set: %s\n", printable.Line(cfg.Path, 200), printable.Line(strings.Join(lines, "; "), 4000))
	}
	if trusted {
		return nil
	}
	switch err := p.question(ctx, cfg.Path, pending, "Allow this now, and later as long as it stays the same?"); {
	case errors.Is(err, errNoTerminal):
		return p.refused(cfg, pending)
	case errors.Is(err, errDeclined):
		f := p.refused(cfg, pending)
		f.err, f.places, f.hint = fmt.Errorf("%s is not approved; nothing was started", printable.Line(cfg.Path, 200)), nil, p.ownHint()
		return f
	case err != nil:
		return err
	}
	for _, e := range pending {
		p.said[e.intent.Digest] = true
	}
	if err := p.approve(pending); err != nil {
		log.Warn("the approval cannot be stored; you will be asked again", "err", err)
	}
	return nil
}

// refused is the failure without a terminal to ask on.
func (p *permission) refused(cfg *config.Config, pending []entry) *failure {
	f := &failure{exit: exitConfig, code: "config_untrusted", hint: p.hint(),
		err: fmt.Errorf("%s was found in this folder, and you have not approved what it would do", printable.Line(cfg.Path, 200))}
	const most = 20
	for i, e := range pending {
		if i == most {
			f.places = append(f.places, fmt.Sprintf("and %d more", len(pending)-most))
			break
		}
		f.places = append(f.places, e.summary())
	}
	return f
}

// command is the command that shows the config and asks.
func (p *permission) command() string {
	words := append([]string{"mcptrack trust"}, p.g.ofHost()...)
	if p.g.formatOf != "" {
		words = append(words, "--format", p.g.formatOf)
	}
	if p.g.insecure {
		words = append(words, "--insecure-config")
	}
	return strings.Join(append(words, printable.Shell(p.folder)), " ")
}

func (p *permission) hint() string { return p.command() + " shows all of it and asks" }

// ownHint says how to use the user's own config instead, if there is one.
func (p *permission) ownHint() string {
	dir := p.g.configOptions(p.env).Folders().AppConfig
	own := filepath.Join(dir, "mcptrack", "mcp-servers.json")
	if _, err := os.Stat(own); err != nil || dir == "" {
		return ""
	}
	return "--config " + printable.Shell(own) + " uses your own config"
}

// approve stores the approval of entries.
func (p *permission) approve(all []entry) error {
	var approvals []trust.Approval
	for _, e := range all {
		approvals = append(approvals, trust.Approval{Digest: e.intent.Digest, Kind: e.kind, Name: e.name, At: time.Now().UTC()})
	}
	return p.store.Approve(p.folder, approvals)
}

// hold returns what a followed config may change without asking: nil, if everything. running is
// the config that was loaded and so is approved.
func (p *permission) hold(running *config.Config, commands bool) *reload.Hold {
	_, trusted := p.everywhere()
	if !p.found || trusted {
		if commands {
			return &reload.Hold{Commands: true}
		}
		return nil
	}
	started := map[string]bool{}
	for _, e := range entries(running) {
		started[e.intent.Digest] = true
	}
	return &reload.Hold{Commands: commands, File: p.store.File(p.folder), Hint: "run: " + p.command(), Approved: func() map[string]bool {
		stored, _ := p.store.Approved(p.folder) // with an error there are none
		approved := stored.Digests()
		maps.Copy(approved, started)
		return approved
	}}
}

// summary is an entry in one line, without secrets.
func (e *entry) summary() string {
	if e.kind == trust.Webhook {
		return "send events to " + e.line
	}
	if e.line == "" { // its command or URL is a reference that has no value
		return e.verb + " " + e.name
	}
	return e.name + ": " + e.line
}
