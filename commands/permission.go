package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
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
	kind   trust.Kind
	name   string // of the server; of a webhook what its URL may show
	verb   string // what happens: run, contact, send
	line   string // the command or the address in one line, without secrets
	intent *config.Intent
}

// entries returns all entries of a config that would be used.
func entries(cfg *config.Config) (all []entry) {
	for _, srv := range cfg.Servers {
		switch {
		case !srv.Enabled || srv.Intent == nil:
		case srv.Transport == config.TransportStdio:
			all = append(all, entry{trust.Server, srv.ID, "run", srv.CommandLine(), srv.Intent})
		default:
			all = append(all, entry{trust.Server, srv.ID, "contact", srv.Endpoint(), srv.Intent})
		}
	}
	for _, w := range cfg.Webhooks {
		if w.Intent == nil {
			continue
		}
		host := "webhook"
		if u, err := url.Parse(w.URL.Reveal()); err == nil && u.Host != "" {
			host = u.Scheme + "://" + u.Host
		}
		all = append(all, entry{trust.Webhook, host, "send events to", host, w.Intent})
	}
	return all
}

// everywhere reports whether the folder is trusted, whatever its config says, and which variable
// says so.
func (p *permission) everywhere() (because string, ok bool) {
	if v := p.env.getenv("CI"); v == "true" || v == "1" {
		return "CI", true
	}
	folder := real(p.folder)
	for _, dir := range filepath.SplitList(p.env.getenv(trustKey)) {
		if !filepath.IsAbs(dir) {
			continue // a folder that depends on where a command runs is none that the user chose
		}
		if inside, err := filepath.Rel(real(dir), folder); err == nil && filepath.IsLocal(inside) {
			return trustKey, true
		}
	}
	return "", false
}

// real returns a path without symbolic links, if it exists.
func real(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return filepath.Clean(path)
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
	return slices.DeleteFunc(entries(cfg), func(e entry) bool { return approved[e.intent.Digest] || p.said[e.intent.Digest] })
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
		fmt.Fprintf(p.env.Err, "mcptrack: trusting %s because CI is set: %s\n", printable.Line(cfg.Path, 200), printable.Line(strings.Join(lines, "; "), 2000))
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
	return strings.Join(append(words, printable.Shell(p.folder)), " ")
}

func (p *permission) hint() string { return p.command() + " shows all of it and asks" }

// ownHint says how to use the user's own config instead, if there is one.
func (p *permission) ownHint() string {
	own := filepath.Join(p.g.configOptions(p.env).Folders().AppConfig, "mcptrack", "mcp-servers.json")
	if _, err := os.Stat(own); err != nil {
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
		approved, err := p.store.Approved(p.folder)
		if err != nil || approved == nil {
			approved = map[string]bool{}
		}
		for digest := range started {
			approved[digest] = true
		}
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

// maxQuestion is the longest question, in bytes: what nobody reads is not consent.
const maxQuestion = 64 << 10

// question shows the entries as the config writes them and asks whether to approve them. The error
// is errNoTerminal or errDeclined, or that of ctx.
func (p *permission) question(ctx context.Context, file string, pending []entry, ask string) error {
	if p.env.Terminal == nil {
		return errNoTerminal
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "\n%s was found in this folder. You have not approved what it would do:\n", printable.Line(file, 0))
	counts := map[string]int{}
	for _, e := range pending {
		e.show(&b)
		counts[e.verb]++
	}
	if b.Len() > maxQuestion {
		return &failure{exit: exitConfig, code: "config_untrusted", err: fmt.Errorf("%s has too much to show in a question", printable.Line(file, 200)),
			hint: "read the file; " + p.command() + " --yes approves it"}
	}
	var parts []string
	for _, verb := range []struct{ name, noun string }{{"run", "command"}, {"contact", "address"}, {"send events to", "webhook"}} {
		if n := counts[verb.name]; n > 0 {
			parts = append(parts, plural(n, verb.noun))
		}
	}
	fmt.Fprintf(&b, "\n%s. %s", strings.Join(parts, ", "), ask)
	return p.env.ask(ctx, b.String())
}

// show writes all that counts of an entry, as the config writes it.
func (e *entry) show(b *bytes.Buffer) {
	rest := slices.Clone(e.intent.Keys)
	take := func(names ...string) (value json.RawMessage) {
		rest = slices.DeleteFunc(rest, func(k config.IntentKey) bool {
			if slices.Contains(names, k.Name) && value == nil {
				value = k.Value
				return true
			}
			return false
		})
		return value
	}
	var line string
	if e.verb == "run" {
		fmt.Fprintf(b, "\n  run %s:\n", printable.Line(e.name, 0))
		if words, ok := commandWords(rest); ok {
			take("command", "cmd")
			take("args")
			line = words
		}
	} else {
		if e.kind == trust.Webhook {
			fmt.Fprint(b, "\n  send events:\n")
		} else {
			fmt.Fprintf(b, "\n  contact %s:\n", printable.Line(e.name, 0))
		}
		var address string
		if json.Unmarshal(take("url", "serverUrl", "httpUrl", "uri"), &address) == nil {
			line = printable.Line(address, 0)
		}
	}
	if line != "" {
		fmt.Fprintf(b, "      %s\n", line)
	}
	for _, k := range rest {
		fmt.Fprintf(b, "      %s: %s\n", k.Name, printable.JSON(k.Value))
	}
	for _, group := range []struct {
		what string
		of   func(config.Use) bool
	}{
		{"takes from your environment", func(u config.Use) bool { return u.Kind == config.UseVariable }},
		{"takes from files of this folder", func(u config.Use) bool { return u.Kind == config.UseFile && !u.Outside }},
		{"takes from files OUTSIDE this folder", func(u config.Use) bool { return u.Kind == config.UseFile && u.Outside }},
		{"takes from your KEYRING", func(u config.Use) bool { return u.Kind == config.UseKeyring }},
	} {
		var names []string
		for _, u := range e.intent.Uses {
			if !group.of(u) {
				continue
			}
			name := printable.Line(u.String(), 0)
			if u.Outside {
				name += " (" + printable.Line(u.Path, 0) + ")"
			}
			names = append(names, name)
		}
		if len(names) > 0 {
			fmt.Fprintf(b, "      %s: %s\n", group.what, strings.Join(names, ", "))
		}
	}
}

// commandWords returns the command and its arguments in one line; ok is false unless they are
// strings.
func commandWords(keys []config.IntentKey) (line string, ok bool) {
	var words, args []string
	for _, k := range keys {
		switch k.Name {
		case "command", "cmd":
			var one string
			if json.Unmarshal(k.Value, &one) == nil {
				words = append(words, one)
			} else if json.Unmarshal(k.Value, &words) != nil {
				return "", false
			}
		case "args":
			if json.Unmarshal(k.Value, &args) != nil {
				return "", false
			}
		}
	}
	words = append(words, args...)
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, " \"'\\") || printable.Line(w, 0) != w {
			words[i] = strconv.Quote(w)
		}
	}
	return printable.Line(strings.Join(words, " "), 0), len(words) > 0
}

// What asking can end with, beside an answer.
var (
	errNoTerminal = errors.New("there is no terminal to ask on")
	errDeclined   = errors.New("declined")
)

// ask asks a question on the terminal. Everything but y and yes is a no: errDeclined.
func (e *Env) ask(ctx context.Context, question string) error {
	if e.Terminal == nil {
		return errNoTerminal
	}
	tty, err := e.Terminal()
	if err != nil {
		return errNoTerminal
	}
	if _, err := io.WriteString(tty, question+" [y/N] "); err != nil {
		return errNoTerminal
	}
	answer := make(chan string, 1) // sent to once, by the goroutine below
	go func() {                    // ends with the process if there is no answer: reading a terminal cannot be interrupted
		answer <- answerLine(tty)
	}()
	select {
	case line := <-answer:
		if line = strings.ToLower(strings.TrimSpace(line)); line != "y" && line != "yes" {
			return errDeclined
		}
		return nil
	case <-ctx.Done():
		_, _ = io.WriteString(tty, "\n")
		return context.Cause(ctx)
	}
}

// answerLine reads a line of at most 1 KiB, and nothing after it: the rest belongs to whoever reads
// next.
func answerLine(r io.Reader) string {
	var line []byte
	for char := make([]byte, 1); len(line) < 1024; {
		n, err := r.Read(char)
		if n > 0 && char[0] != '\n' {
			line = append(line, char[0])
		}
		if n > 0 && char[0] == '\n' || err != nil {
			break
		}
	}
	return string(line)
}
