// Package guard decides what may be served of servers, by the lock file in which the user approved them.
//
// A [Guard] follows a lock file. [Guard.Judge] compares what a server offers with it and returns a
// [Verdict], which applies the policy of the server's config entry. A setting that is weaker than the
// default counts only as far as the lock has it too:
//
//   - allow and audit serve what the server offers. Audit reports the change.
//   - hold serves the approved definition of a changed item, hides an added one and lists a removed one
//     as before. Requests for these items are refused. The other items of the server are not affected.
//     Changed instructions are replaced by the approved ones. A held change of the launch or the
//     capabilities concerns the whole server, and so is treated as block.
//   - block serves nothing of the server.
//
// A server that is not in the lock is blocked. If the lock is damaged or unreadable, or if
// other users can change it, all servers are blocked, because each of them could be in it. Errors name the command that shows the change; they
// never contain anything of the change, because a model reads them.
//
// Without a lock file nothing is compared. A file that is required, or that a guard which enforces has
// read once, counts as damaged while it is missing: whoever removes it must not disable the lock.
//
// Changes of the file take effect within one second, unless it is removed: then within three seconds.
// A verdict is immutable. It keeps the definitions that it was made from. Run owns its goroutines.
//
// Libraries: go-json-experiment/json reads results strictly: names of members are exact and unique.
package guard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/filewatch"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
)

// FileName is the name of the lock file beside a config.
const FileName = "mcptrack.lock"

// Beside returns the path of the lock file beside a config file.
func Beside(config string) string { return filepath.Join(filepath.Dir(config), FileName) }

// Options configure [New]. Path is required.
type Options struct {
	Path string
	// Required means that there must be a lock file.
	Required bool
	// Insecure means that a lock is also used if other users can change it, see [lock.CheckAccess].
	Insecure bool
	// Enforce is [lock.Hold] by default, which applies the policies of servers as they are. With
	// [lock.Audit] everything is served, and with [lock.Block] a server is blocked by each change that
	// its policy holds.
	Enforce lock.Action
	// ReportOnly means that nothing is served by the verdicts: warnings do not say so, and a lock that is
	// removed is compared no more.
	ReportOnly bool
	// Flags are the flags with which mcptrack uses the same lock and config, such as "--lock FILE", quoted
	// for a shell. The commands that errors and warnings name have them.
	Flags string
	// Logger receives warnings about the file; nil discards them.
	Logger *slog.Logger
}

// Guard compares servers with a lock file. Its methods are safe for concurrent use, except that
// Run and Reload must not be called concurrently.
type Guard struct {
	opts  Options
	read  bool // there has been a lock file; only Reload uses it
	state atomic.Pointer[state]
}

// state is the content of the file.
type state struct {
	lock    *lock.Lock // nil if there is no file or if it cannot be read
	problem string     // why it cannot be read; empty if it can, or if there is no file
	// replaced is closed by Reload when there is another state.
	replaced chan struct{}
}

// New returns a guard that has read the file. It returns an error if the file is required and does not
// exist.
func New(opts Options) (*Guard, error) {
	opts.Enforce = cmp.Or(opts.Enforce, lock.Hold)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Guard{opts: opts}
	if _, err := lock.Read(opts.Path); opts.Required && errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	g.Reload()
	return g, nil
}

// pollInterval is how often the file is read where the file system reports no changes.
const pollInterval = 500 * time.Millisecond

// repairInterval is how often a file that could not be read is read again: changes of its mode or owner
// are not reported.
const repairInterval = time.Second

// Run follows the file until ctx ends, and returns the cause.
func (g *Guard) Run(ctx context.Context) error {
	file := filewatch.NewFile(g.opts.Path, filewatch.FileOptions{PollOnly: pollInterval, MaxBytes: lock.MaxFile, Logger: g.opts.Logger})
	done := make(chan error, 1) // one result of one goroutine
	go func() { done <- file.Run(ctx) }()
	repaired := time.NewTicker(repairInterval)
	defer repaired.Stop()
	for {
		select {
		case _, ok := <-file.Changes():
			if !ok {
				return <-done
			}
			g.Reload()
		case <-repaired.C:
			if g.state.Load().problem != "" {
				g.Reload()
			}
		}
	}
}

// Reload reads the file now.
func (g *Guard) Reload() {
	next := &state{replaced: make(chan struct{})}
	l, err := lock.Read(g.opts.Path)
	if err == nil && !g.opts.Insecure {
		err = lock.CheckAccess(g.opts.Path)
	}
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case err == nil:
		next.lock = l
	case !missing || g.opts.Required || g.read && !g.opts.ReportOnly:
		next.problem = printable.Reason(err, 500)
	}
	g.read = g.read || !missing
	was := g.state.Load()
	if was != nil && was.problem == next.problem && next.problem != "" {
		return
	}
	g.state.Store(next)
	if was != nil {
		close(was.replaced)
	}
	if next.problem != "" {
		meanwhile := "nothing of its servers is served"
		if g.opts.ReportOnly || g.opts.Enforce == lock.Audit {
			meanwhile = "servers are not compared with it"
		}
		hint := g.run("verify") + " to see the problem"
		if missing {
			hint = "restore the file, or start again to serve without a lock"
			if g.opts.Required {
				hint = "restore the file"
			}
		}
		g.opts.Logger.Warn("the lock cannot be read; "+meanwhile+" until it can", "err", next.problem, "hint", hint)
	}
}

// run tells the user to run a command of mcptrack. Arguments must be quoted for a shell.
func (g *Guard) run(command ...string) string {
	if g.opts.Flags != "" {
		command = append(command, g.opts.Flags)
	}
	return "run mcptrack " + strings.Join(command, " ")
}

// Changes returns a channel that is closed when the verdicts of now may change, because the file was read again.
func (g *Guard) Changes() <-chan struct{} {
	if g == nil {
		return nil
	}
	return g.state.Load().replaced
}

// Version returns a value that changes whenever the file was read. Verdicts with the same version and
// offer are the same. It is nil for a nil Guard.
func (g *Guard) Version() any {
	if g == nil {
		return nil
	}
	return g.state.Load()
}

// Path returns the path of the lock file.
func (g *Guard) Path() string { return g.opts.Path }

// Exists reports whether there is a lock file, even if it cannot be read.
func (g *Guard) Exists() bool {
	s := g.state.Load()
	return s.lock != nil || s.problem != ""
}

// Lacks reports whether a server is blocked because the lock does not have it.
func (g *Guard) Lacks(server string) bool {
	if g == nil || g.opts.Enforce == lock.Audit {
		return false
	}
	l := g.state.Load().lock
	return l != nil && l.Servers[server] == nil
}

// Offer is what a server offers.
type Offer struct {
	// Launch and Capabilities are nil if they are not known.
	Launch, Capabilities json.RawMessage
	// Instructions is nil if they are not known, and points to an empty text if there are none.
	Instructions *string
	// Lists has the lists that are known.
	Lists map[catalog.Kind][]catalog.Item
	// Secrets are replaced in everything that changes show, and what contains one cannot be approved; see
	// [lock.Item.Redact].
	Secrets []string
}

// observation returns the offer as an observation.
func (o Offer) observation(h lock.Hashing) lock.Observation {
	seen := lock.Observation{}
	for section, definition := range map[lock.Section]json.RawMessage{lock.SectionLaunch: o.Launch, lock.SectionCapabilities: o.Capabilities} {
		if definition != nil {
			seen[section] = []lock.Item{h.Item(section, definition)}
		}
	}
	if o.Instructions != nil {
		seen[lock.SectionInstructions] = []lock.Item{}
		if *o.Instructions != "" {
			text, _ := json.Marshal(*o.Instructions) // cannot fail
			seen[lock.SectionInstructions] = []lock.Item{h.Item(lock.SectionInstructions, text)}
		}
	}
	for kind, list := range o.Lists {
		items := make([]lock.Item, len(list))
		for i, it := range list {
			items[i] = h.Item(lock.Section(kind), it.Raw)
			items[i].Key = it.Key // under which clients use it
		}
		seen[lock.Section(kind)] = items
	}
	if len(o.Secrets) > 0 {
		for section, items := range seen {
			for i := range items {
				if section != lock.SectionLaunch { // which is masked
					items[i].Redact(o.Secrets)
				}
			}
		}
	}
	return seen
}

// Judge compares a server with the lock. It returns nil, which serves everything, if the Guard is nil
// or there is no lock file.
func (g *Guard) Judge(server string, policy lock.Policy, o Offer) *Verdict {
	if g == nil {
		return nil
	}
	s := g.state.Load()
	if s.lock == nil && s.problem == "" {
		return nil
	}
	v := &Verdict{review: g.run("review", printable.Shell(server)), enforce: g.opts.Enforce, held: map[id]held{}}
	if s.lock == nil {
		v.block("the lock file cannot be read; " + g.run("verify"))
		return v
	}
	if v.approved = s.lock.Servers[server]; v.approved == nil {
		v.block("the server is not in the lock; " + g.run("lock", printable.Shell(server)))
		return v
	}
	v.policy = policy.Within(v.approved.Policy)
	v.hashing = s.lock.Hashing
	seen := o.observation(v.hashing)
	for section := range seen {
		v.compared = append(v.compared, section)
	}
	for _, d := range lock.Compare(v.approved, seen) {
		v.judge(d)
	}
	return v
}
