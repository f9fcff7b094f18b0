package commands

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/servercard"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/textdiff"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/agent"
	"github.com/mcptrack/mcptrack/output/api"
	"github.com/mcptrack/mcptrack/output/dashboard"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/jsonl"
	"github.com/mcptrack/mcptrack/output/lines"
	"github.com/mcptrack/mcptrack/output/remote"
)

// streamFlags contains the flags of commands that print events.
type streamFlags struct {
	cli.ConnectFlags
	count   int
	content bool
	diff    bool
	verbose bool
}

func (s *streamFlags) add(cmd *cobra.Command) {
	s.ConnectFlags.Add(cmd)
	f := cmd.Flags()
	cli.AddCount(cmd, &s.count, "changes")
	f.BoolVar(&s.content, "content", false, "add the new content of texts")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "print every event")
	f.BoolVar(&s.diff, "diff", false, "add a unified diff of texts")
}

func (s *streamFlags) parse() error {
	if s.count < 0 {
		return cli.Usage("--count must not be negative")
	}
	return s.ConnectFlags.Parse()
}

// stream prints the events from one tracker. Only take and passed are safe for concurrent use.
type stream struct {
	printing sync.Mutex // held while an entry is taken

	flags  streamFlags
	keep   func(*event.Event) bool // reports whether to print an event; nil prints all
	counts func(*event.Event) bool // reports whether an event counts for --count
	write  func(...*event.Event) error
	lines  *lines.Writer // nil if the output format is not lines
	raw    *bufio.Writer // for events exactly as they are stored; nil prints them through write
	agent  *agent.Watch  // reports the events to agents in place of the writers above, if it is not nil
	// texts returns the text of a resource version for --content and --diff, or nil if it is not
	// available. It is nil if only the events of a tracker are printed, which contain their texts.
	texts func(e *event.Event, digest catalog.Digest) *string

	batch     []*event.Event // to be printed with the entries that follow immediately
	last      string         // id of the last entry that has one
	counted   int
	printed   bool // whether any event was printed, but not as it is stored
	followed  bool // whether there was ever a server to follow
	connected bool // whether any server was ever Ready
}

// errCounted ends a stream when --count changes have been printed.
var errCounted = errors.New("--count reached")

func newStream(env *cli.Env, g *cli.Globals, flags streamFlags) *stream {
	s := &stream{flags: flags, counts: isChange}
	switch {
	case g.Format.Name == "json":
		s.write = jsonl.NewWriter(env.Out).Write
	case g.Format.Table():
		s.lines = &lines.Writer{W: env.Out, Colour: g.Colours(env, env.OutTTY), Wide: g.Format.Wide(), Summaries: flags.content || flags.diff, Verbose: true}
		if env.OutTTY {
			s.lines.Zone = time.Local
		}
		if env.Width() > 0 {
			s.lines.Columns = env.Width
		}
		s.write = s.lines.Write
	case g.Format.Name == "name":
		s.write = func(events ...*event.Event) error { return writeEventNames(env.Out, events) }
	default:
		fields := event.Fields()
		s.write = func(events ...*event.Event) error {
			for _, e := range events {
				if err := document.WriteEach(env.Out, g.Format, e, fields...); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return s
}

// writeEventNames prints the subject of each event in the format that list uses: the server's id
// and, for a resource, a tab and its URI. It skips events that do not concern a server.
func writeEventNames(w io.Writer, events []*event.Event) error {
	var out strings.Builder
	for _, e := range events {
		if e.ServerID == "" {
			continue
		}
		out.WriteString(printable.Line(e.ServerID, 0))
		if e.ResourceURI != "" {
			out.WriteString("\t" + printable.Line(e.ResourceURI, 0))
		}
		out.WriteByte('\n')
	}
	if out.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// isChange reports whether an event is a change at a server, in the config or in the feed.
func isChange(e *event.Event) bool {
	d, ok := event.Define(e.Type())
	return ok && d.Change
}

// take prints an entry, possibly only together with those that follow immediately. An entry that is not
// an event, because another program on the cluster or a newer mcptrack stored it, is printed as a gap.
// take returns errCounted when --count is reached.
func (s *stream) take(entry journal.Entry) error {
	s.printing.Lock()
	defer s.printing.Unlock()
	if entry.ID != "" { // otherwise it is not from the source
		s.last = entry.ID
	}
	if s.raw != nil && s.connected && s.keep == nil && s.flags.count == 0 { // no event needs to be decoded
		return s.end(s.writeRaw(&entry), entry.More)
	}
	e, err := entry.Event()
	if err != nil {
		epoch, _, _ := event.ParseID(entry.ID) // cannot fail: the log created the id
		gap := journal.GapEntry(epoch, entry.Seq, entry.Seq, journal.ReasonDamaged)
		gap.More = entry.More
		entry = gap
		e, err = entry.Event()
	}
	if !s.passes(&e) {
		return s.end(nil, entry.More)
	}
	if s.raw == nil {
		s.batch = append(s.batch, s.decorate(&e))
	} else {
		err = s.writeRaw(&entry)
	}
	return s.end(cmp.Or(err, s.count(&e)), entry.More)
}

// writeRaw writes an entry as it is stored. Its error may be that of an earlier write.
func (s *stream) writeRaw(entry *journal.Entry) error {
	_, err := s.raw.Write(append(entry.AppendData(s.raw.AvailableBuffer()), '\n'))
	return err
}

// passed records that the entries until id need not be read again.
func (s *stream) passed(id string) {
	s.printing.Lock()
	defer s.printing.Unlock()
	s.last = id
}

// end prints what was taken, unless more follows immediately, and returns err or why it cannot be printed.
func (s *stream) end(err error, more bool) error {
	switch {
	case err == nil && more && (s.raw != nil || len(s.batch) < largestBatch):
		return nil
	case s.raw != nil:
		return cmp.Or(s.raw.Flush(), err)
	case len(s.batch) == 0:
		return err
	}
	batch := s.batch
	s.batch, s.printed = batch[:0], true
	return cmp.Or(s.write(batch...), err)
}

// from prints the events of a source until it ends, or ctx.
func (s *stream) from(ctx context.Context, client remote.Client, o remote.ReadOptions) error {
	if s.agent != nil {
		err := s.agent.Follow(ctx, client, o)
		if errors.Is(err, agent.ErrEnough) {
			return errCounted
		}
		return err
	}
	s.texts = func(e *event.Event, digest catalog.Digest) *string {
		if digest.IsZero() {
			return nil
		}
		text, ok, err := client.Text(ctx, e.ServerID, e.ResourceURI, digest)
		if err != nil || !ok {
			return nil
		}
		return &text
	}
	defer func() { s.texts = nil }()
	err := client.Follow(ctx, o, s.take)
	s.printing.Lock()
	defer s.printing.Unlock()
	return s.end(err, false)
}

// passes reports whether to print an event, and remembers whether a server is connected.
func (s *stream) passes(e *event.Event) bool {
	if st, ok := e.Payload.(event.ServerState); ok {
		s.followed = true
		s.connected = s.connected || st.State == event.Ready || st.StillConnected
	}
	return s.keep == nil || s.keep(e)
}

// reached records that a source of events was reached, whether or not its servers are.
func (s *stream) reached() { s.followed, s.connected = true, true }

// count returns errCounted if --count is reached with the event.
func (s *stream) count(e *event.Event) error {
	if s.counts(e) && (s.lines == nil || !s.lines.Hides(e)) {
		s.counted++
	}
	if s.flags.count > 0 && s.counted >= s.flags.count {
		return errCounted
	}
	return nil
}

// decorate returns a copy of the event with the content and diff that the flags request.
func (s *stream) decorate(e *event.Event) *event.Event {
	u, ok := e.Payload.(event.ResourceUpdated)
	if !ok || !s.flags.content && !s.flags.diff {
		return e
	}
	if s.texts != nil && u.Text == nil {
		u.Text = s.texts(e, u.Digest)
		if s.flags.diff && u.PreviousText == nil {
			u.PreviousText = s.texts(e, u.PreviousDigest)
		}
	}
	if s.flags.content {
		u.Content = u.Text
	}
	if s.flags.diff && u.Text != nil && u.PreviousText != nil {
		if d := textdiff.Unified(e.ResourceURI, *u.PreviousText, *u.Text); d != "" {
			u.Diff = &d
		}
	}
	decorated := *e
	decorated.Payload = u
	return &decorated
}

// largestBatch limits the number of events that are printed in one write.
const largestBatch = 512

// follow configures line output for a long-running command. It hides transient states, unless types
// reports that --type selects events, and assigns columns and colours to the servers in cfg. On a
// terminal, it prints a hint after the first subscription.
func (s *stream) follow(env *cli.Env, g *cli.Globals, cfg *config.Config, types bool) {
	if s.lines == nil {
		return
	}
	s.lines.Verbose = s.flags.verbose || types
	if cfg != nil {
		for _, srv := range cfg.Servers {
			if srv.Tracked() {
				s.lines.Servers(srv.ID)
			}
		}
	}
	if s.lines.Columns == nil || !env.ErrTTY || g.Quiet || s.flags.diff || s.flags.content || s.flags.verbose || s.lines.Wide {
		return
	}
	hinted := false
	s.write = func(events ...*event.Event) error {
		if err := s.lines.Write(events...); err != nil || hinted {
			return err
		}
		for _, e := range events {
			if e.Type() == event.TypeSubscriptionActive && !hinted {
				hinted = true
				fmt.Fprintln(env.Err, "hint: --diff shows what changes, -v every state; mcptrack top is a live view; -q hides hints")
			}
		}
		return nil
	}
}

// statesOnce returns the tracker's logger. If events and log records are written to the same
// terminal, the logger drops records that repeat state events.
func statesOnce(env *cli.Env, g *cli.Globals) *slog.Logger {
	log := g.Logger(env)
	if !g.Format.Table() || !env.OutTTY || !env.ErrTTY {
		return log
	}
	return slog.New(withoutStates{log.Handler()})
}

type withoutStates struct{ slog.Handler }

func (h withoutStates) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == status.StateMessage {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h withoutStates) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutStates{h.Handler.WithAttrs(attrs)}
}

func (h withoutStates) WithGroup(name string) slog.Handler {
	return withoutStates{h.Handler.WithGroup(name)}
}

// trackerOptions returns the tracker options for a command that prints events. Lines on a terminal show
// how many lines of a text changed, so the texts are kept there too.
func (s *streamFlags) trackerOptions(env *cli.Env, g *cli.Globals) tracker.Options {
	return tracker.Options{Dial: env.Dial, Session: s.SessionOptions(env, g), Logger: statesOnce(env, g), Texts: s.content || s.diff || env.Width() > 0, Card: servercard.Fetch}
}

// run runs the engine and the parts until ctx ends, --count is reached, or one of them fails. It
// then prints the final events, and returns the command's error.
func (s *stream) run(ctx context.Context, e *engine.Engine, parts ...engine.Part) error {
	client, from := api.Local(e.Log(), dashboard.Options{}), remote.Position{ID: event.FormatID(e.Log().Epoch(), e.First()-1)}
	return s.outcome(ctx, runReading(ctx, e, func(ctx context.Context) error {
		return s.from(ctx, client, remote.ReadOptions{From: from})
	}, parts...))
}

// runReading runs an engine, the parts and a reader of its log, whose error counts even after ctx has ended.
func runReading(ctx context.Context, e *engine.Engine, read func(context.Context) error, parts ...engine.Part) error {
	var ended error
	err := e.Run(ctx, append(parts, engine.Reader(func(ctx context.Context) error {
		ended = read(ctx)
		return ended
	}))...)
	return cmp.Or(err, ended)
}

// outcome returns the command's error, or nil if the command succeeded.
func (s *stream) outcome(ctx context.Context, failed error) error {
	switch {
	case errors.Is(failed, errCounted), errors.Is(failed, syscall.EPIPE):
		return nil
	case failed != nil:
		return failed
	}
	if !errors.Is(context.Cause(ctx), cli.ErrTimeout) {
		return nil // an interrupt is the normal end of a stream
	}
	switch {
	case !s.followed && !s.connected:
		return cli.Unreachable("mcptrack validate shows how many servers are tracked", "--timeout expired and there was no server to follow")
	case !s.connected:
		return cli.Unreachable("mcptrack list shows why", "--timeout expired and no server could be reached")
	case s.flags.count > 0:
		return cli.TimeoutBefore("--count was reached")
	}
	return nil
}
