package cli

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
	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/reload"
	"github.com/mcptrack/mcptrack/core/trust"
)

// trustKey is the environment variable that lists the folders whose configs are trusted.
const trustKey = "MCPTRACK_TRUST"

// Reads returns the names of the variables, other than those that servers inherit, that are looked up to read any
// config.
func Reads() []string {
	return append(hosts.Variables(), "MCPTRACK_CONFIG", "AppData", trustKey, "CI")
}

// Permission is the user's approval of one config. Anyone may have written a config that was found
// in a folder, so the user must approve what it runs and sends. A config that the user specified,
// or that is in the user's config directory, needs no approval. With --approved, specifying a config
// is no approval, because others may change the command line, too.
type Permission struct {
	env    *Env
	g      *Globals
	path   string // path of the config
	Needed bool   // whether the config needs approval
	folder string // absolute path of the folder for which it is approved
	store  *trust.Store
	now    map[string]bool // digests of entries approved during this run
	unread bool            // the config refers to the keyring, which was not read yet

	problems config.Problems // of the file when it was last read
}

// Permission returns the permission for the config at path, as returned by ConfigPath.
func (g *Globals) Permission(env *Env, path string) (*Permission, error) {
	p := &Permission{env: env, g: g, path: path, store: env.Approvals(), now: map[string]bool{}}
	opts := g.ConfigOptions(env)
	folder, err := filepath.Abs(opts.Workspace)
	p.folder, p.Needed = folder, (g.Config == "" || g.approved) && !config.IsUsers(path, opts)
	return p, err
}

// readApproved reads the config. It reads the keyring, which may prompt the user to unlock it, only
// for an approved config.
func (p *Permission) readApproved(log *slog.Logger) (*config.Config, error) {
	cfg, err := p.Read(log, !p.Needed)
	if err != nil || !p.Needed || !usesKeyring(cfg) {
		return cfg, err
	}
	_, trusted := p.trusted()
	if p.unread = len(p.Pending(cfg, log)) > 0 && !p.g.trust && !trusted; p.unread {
		return cfg, nil
	}
	return p.Read(log, true)
}

func (p *Permission) Read(log *slog.Logger, withKeyring bool) (*config.Config, error) {
	opts := p.g.ConfigOptions(p.env)
	if !withKeyring {
		opts.Keyring = nil
	}
	cfg, problems := config.Load(p.path, opts)
	p.problems = problems
	if cfg == nil {
		return nil, invalidConfig(p.path, problems)
	}
	p.g.lastRead = cfg
	for _, problem := range problems {
		level := slog.LevelInfo
		if problem.Code == config.CodeInsecure || problem.Severity == config.SeverityError {
			level = slog.LevelWarn
		}
		log.Log(context.Background(), level, "config", "problem", problem.String())
	}
	return cfg, nil
}

// Inspection is a config as a command reads it that asks the user nothing.
type Inspection struct {
	// Config has Unapproved set for the servers that must not be used; nil if it cannot be read.
	Config *config.Config
	// Problems has the problems of the file: warnings, and errors if Config is nil or the file is a host's.
	Problems config.Problems
	// Unapproved are the entries that the user has not approved, and Hint says how to approve them.
	Unapproved []Entry
	Hint       string
}

// Inspect reads the config for a command that uses only what is approved. Unlike Load, it does not ask
// for the approval of the rest. The error says why there is no config.
func (g *Globals) Inspect(env *Env, log *slog.Logger) (Inspection, error) {
	if g.demo {
		return Inspection{Config: demoConfig(env)}, nil
	}
	path, err := g.ConfigPath(env, log)
	if err != nil {
		return Inspection{}, err
	}
	p, err := g.Permission(env, path)
	if err != nil {
		return Inspection{}, err
	}
	cfg, err := p.readApproved(log)
	if err != nil {
		return Inspection{Problems: p.problems}, err
	}
	in := Inspection{Problems: p.problems, Unapproved: p.unapproved(cfg, log), Hint: p.hint()}
	servers := slices.Clone(cfg.Servers)
	for i := range servers {
		srv := &servers[i]
		pending := slices.ContainsFunc(in.Unapproved, func(e Entry) bool { return e.Kind == trust.Server && e.Name == srv.ID })
		if pending || p.unread && srv.Intent != nil && slices.ContainsFunc(srv.Intent.Uses, readsKeyring) {
			srv.Unapproved = in.Hint
		}
	}
	in.Config = cfg.With(servers)
	return in, nil
}

func readsKeyring(u config.Use) bool { return u.Kind == config.UseKeyring }

func usesKeyring(cfg *config.Config) bool {
	return slices.ContainsFunc(Entries(cfg), func(e Entry) bool {
		return slices.ContainsFunc(e.Intent.Uses, readsKeyring)
	})
}

// Approvals returns the store that contains the user's approvals.
func (e *Env) Approvals() *trust.Store {
	return trust.New(e.StateDir("trust"))
}

// Entry is a server, webhook, hook or client in a config that needs approval.
type Entry struct {
	Kind    trust.Kind
	Name    string // server id, origin of the webhook's URL, path of the hook, or name of the client
	verb    string // what mcptrack does with it: run, contact, send, accept or let in
	line    string // command or address on one line, as written in the config, without credentials
	host    string // contacted host, as written in the config
	changed bool   // another version of the entry was approved earlier
	Intent  *config.Intent
}

// Entries returns the entries in a config that need approval. Only their intents contain the values
// of references.
func Entries(cfg *config.Config) (all []Entry) {
	for _, srv := range cfg.Servers {
		switch {
		case !srv.Enabled || srv.Intent == nil:
		case srv.Transport == config.TransportStdio:
			command, args, _ := srv.Intent.Command()
			written := config.Server{Program: config.Program{Command: command, Args: args}}
			all = append(all, Entry{Kind: trust.Server, Name: srv.ID, verb: "run", line: written.CommandLine(), Intent: srv.Intent})
		default:
			origin, path := splitURL(srv.Intent.URL())
			all = append(all, Entry{Kind: trust.Server, Name: srv.ID, verb: "contact", line: origin + path, host: hostOf(origin), Intent: srv.Intent})
		}
	}
	for _, w := range cfg.Webhooks {
		if w.Intent == nil {
			continue
		}
		origin, _ := splitURL(w.Intent.URL()) // the path may be as secret as a token
		all = append(all, Entry{Kind: trust.Webhook, Name: origin, verb: "send events to", line: origin, host: hostOf(origin), Intent: w.Intent})
	}
	for _, h := range cfg.Hooks {
		if h.Intent != nil {
			all = append(all, Entry{Kind: trust.Hook, Name: hook.Path + h.ID, verb: acceptMessages, line: hook.Path + h.ID, Intent: h.Intent})
		}
	}
	for _, c := range cfg.Clients {
		if c.Intent != nil {
			all = append(all, Entry{Kind: trust.Client, Name: c.Name, verb: letIn, line: c.Name, Intent: c.Intent})
		}
	}
	return all
}

// The verbs of a hook and of a client.
const (
	acceptMessages = "accept messages at"
	letIn          = "let in"
)

// splitURL splits a URL, which may contain references, into its origin, without user and password,
// and its path, without query and credentials.
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

// hostOf returns the host in an origin, in ASCII.
func hostOf(origin string) string {
	_, host, _ := strings.Cut(origin, "://")
	return strings.Trim(strconv.QuoteToASCII(host), `"`)
}

// trusted reports whether an environment variable trusts the whole folder, regardless of the
// config's content, and which variable.
func (p *Permission) trusted() (because string, ok bool) {
	folder, err := trust.Resolved(p.folder)
	if err != nil {
		folder = p.folder
	}
	for _, dir := range filepath.SplitList(p.env.Getenv(trustKey)) {
		if !filepath.IsAbs(dir) {
			continue // a relative path depends on the working directory, so it is not the user's choice
		}
		if dir, err = trust.Resolved(dir); err != nil {
			continue
		}
		if inside, err := filepath.Rel(dir, folder); err == nil && filepath.IsLocal(inside) {
			return trustKey, true
		}
	}
	if v := p.env.Getenv("CI"); v == "true" || v == "1" {
		return "CI", true
	}
	return "", false
}

// Pending returns the entries that need approval and are not approved yet.
func (p *Permission) Pending(cfg *config.Config, log *slog.Logger) []Entry {
	if !p.Needed {
		return nil
	}
	approved, err := p.store.Approved(p.folder)
	if err != nil {
		log.Warn("cannot read the approvals of this folder; nothing in it is approved", "err", err)
	}
	digests := approved.Digests()
	var pending []Entry
	for _, e := range Entries(cfg) {
		if digests[e.Intent.Digest] || p.now[e.Intent.Digest] {
			continue
		}
		e.changed = approved.Knows(e.Kind, e.Name)
		pending = append(pending, e)
	}
	return pending
}

// require returns nil if everything that the config runs or sends is approved: by an earlier
// approval, a flag or variable, or the user's answer now.
func (p *Permission) require(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	pending := p.Pending(cfg, log)
	if len(pending) == 0 || p.g.trust {
		return nil
	}
	because, trusted := p.trusted()
	if trusted && because == "CI" && !p.g.Quiet {
		var lines []string
		for _, e := range pending {
			lines = append(lines, e.Summary())
		}
		fmt.Fprintf(p.env.Err, "mcptrack: trusting %s because CI is set: %s\n", printable.Line(cfg.Path, 200), printable.Line(strings.Join(lines, "; "), 4000))
	}
	if trusted {
		return nil
	}
	switch err := p.Question(ctx, cfg.Path, pending, "Allow this now, and later as long as it stays the same?"); {
	case errors.Is(err, ErrNoTerminal):
		return p.refused(cfg, pending)
	case errors.Is(err, ErrDeclined):
		f := p.refused(cfg, pending)
		f.Err, f.Places, f.Hint = fmt.Errorf("%s is not approved; nothing was started", printable.Line(cfg.Path, 200)), nil, p.ownHint()
		return f
	case err != nil:
		return err
	}
	for _, e := range pending {
		p.now[e.Intent.Digest] = true
	}
	if err := p.Approve(pending); err != nil {
		log.Warn("the approval cannot be stored; you will be asked again", "err", err)
	}
	return nil
}

// Refusal returns the failure if an entry with one of the names is not approved: by an earlier
// approval, a flag or a variable. It does not ask.
func (p *Permission) Refusal(cfg *config.Config, log *slog.Logger, names []string) error {
	pending := slices.DeleteFunc(p.unapproved(cfg, log), func(e Entry) bool { return e.Kind != trust.Server || !slices.Contains(names, e.Name) })
	if len(pending) == 0 {
		return nil
	}
	return p.refused(cfg, pending)
}

// unapproved returns the entries that nothing approves: no earlier approval, flag or variable.
func (p *Permission) unapproved(cfg *config.Config, log *slog.Logger) []Entry {
	if _, trusted := p.trusted(); trusted || p.g.trust {
		return nil
	}
	return p.Pending(cfg, log)
}

// refused returns the failure if approval is needed but there is no terminal to ask on.
func (p *Permission) refused(cfg *config.Config, pending []Entry) *Failure {
	f := &Failure{Exit: ExitConfig, Code: "config_untrusted", Hint: p.hint(),
		Err: fmt.Errorf("%s was found in this folder, and you have not approved what it would do", printable.Line(cfg.Path, 200))}
	if p.g.approved {
		f.Err = fmt.Errorf("you have not approved what %s would do now", printable.Line(cfg.Path, 200))
	}
	const most = 20
	for i, e := range pending {
		if i == most {
			f.Places = append(f.Places, fmt.Sprintf("and %d more", len(pending)-most))
			break
		}
		f.Places = append(f.Places, e.Summary())
	}
	return f
}

// command returns a command line that shows the config and asks for approval.
func (p *Permission) command() string {
	words := append([]string{"mcptrack trust"}, p.g.OfHost()...)
	if p.g.insecure {
		words = append(words, "--insecure-config")
	}
	return strings.Join(append(words, printable.Shell(p.folder)), " ")
}

func (p *Permission) hint() string { return p.command() + " shows all of it and asks" }

// ownHint returns a hint to use the user's own config instead, or "" if there is none.
func (p *Permission) ownHint() string {
	own := config.OwnPath(p.g.ConfigOptions(p.env))
	if _, err := os.Stat(own); err != nil {
		return ""
	}
	return "--config " + printable.Shell(own) + " uses your own config"
}

// Approve stores the user's approval of entries.
func (p *Permission) Approve(all []Entry) error {
	var approvals []trust.Approval
	for _, e := range all {
		approvals = append(approvals, trust.Approval{Digest: e.Intent.Digest, Kind: e.Kind, Name: e.Name, At: time.Now().UTC()})
	}
	return p.store.Approve(p.folder, approvals)
}

// hold returns the limits on what a reloaded config may change without approval, or nil if it may
// change everything. running is the currently loaded config, which is approved.
func (p *Permission) hold(running *config.Config, commands bool) *reload.Hold {
	_, trusted := p.trusted()
	if !p.Needed || trusted {
		if commands {
			return &reload.Hold{Commands: true}
		}
		return nil
	}
	started := map[string]bool{}
	for _, e := range Entries(running) {
		started[e.Intent.Digest] = true
	}
	return &reload.Hold{Commands: commands, File: p.store.File(p.folder), Hint: "run: " + p.command(), Approved: func() map[string]bool {
		stored, _ := p.store.Approved(p.folder) // after an error nothing counts as approved
		approved := stored.Digests()
		maps.Copy(approved, started)
		return approved
	}}
}

// Summary returns a one-line description of the entry without secrets.
func (e *Entry) Summary() string {
	if e.Kind != trust.Server {
		return e.verb + " " + e.line
	}
	if e.line == "" { // the command or URL is a reference without a value
		return e.verb + " " + e.Name
	}
	return e.Name + ": " + e.line
}
