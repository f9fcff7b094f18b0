package commands

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/diff"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/jsonl"
	"github.com/mcptrack/mcptrack/output/lines"
)

// streamFlags are the flags of commands that print events.
type streamFlags struct {
	connectFlags
	count   int
	content bool
	diff    bool
	verbose bool
}

func (s *streamFlags) add(cmd *cobra.Command) {
	s.connectFlags.add(cmd)
	f := cmd.Flags()
	f.IntVar(&s.count, "count", 0, "exit after this `NUMBER` of changes (default no limit)")
	f.BoolVar(&s.content, "content", false, "add the new content of text resources to their events")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "print every event on a line of its own, including transitional states")
	f.BoolVar(&s.diff, "diff", false, "add a unified diff of text resources to their events")
}

func (s *streamFlags) parse() error {
	if s.count < 0 {
		return usage("--count must not be negative")
	}
	return s.connectFlags.parse()
}

// stream prints the events of one tracker. It is not safe for concurrent use.
type stream struct {
	flags  streamFlags
	keep   func(*event.Event) bool // whether to print an event; nil: all
	counts func(*event.Event) bool // whether --count counts an event
	write  func(...*event.Event) error
	lines  *lines.Writer // the writer used for lines; nil: the output is not lines

	counted   int
	followed  bool // there was a server to follow
	connected bool // a server was Ready
}

// errCounted ends a stream after --count changes.
var errCounted = errors.New("--count reached")

func newStream(env *Env, g *globals, flags streamFlags) *stream {
	s := &stream{flags: flags, counts: isChange}
	switch {
	case g.format.Name == "json":
		s.write = jsonl.NewWriter(env.Out).Write
	case g.format.Table():
		s.lines = &lines.Writer{W: env.Out, Colour: g.colours(env, env.OutTTY), Wide: g.format.Wide(), Summaries: flags.content || flags.diff, Verbose: true}
		if env.OutTTY {
			s.lines.Zone = time.Local
		}
		if env.width() > 0 {
			s.lines.Columns = env.width
		}
		s.write = s.lines.Write
	case g.format.Name == "name":
		s.write = func(events ...*event.Event) error { return writeEventNames(env.Out, events) }
	default:
		s.write = func(events ...*event.Event) error {
			for _, e := range events {
				if err := document.WriteEach(env.Out, g.format, e); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return s
}

// writeEventNames prints the subject of each event as list does: the server and, if the
// event is about a resource, a tab and its URI. Events about no server are skipped.
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

// isChange reports whether an event is about a change at a server, of the config or of
// the feed.
func isChange(e *event.Event) bool {
	d, ok := event.Define(e.Type())
	return ok && d.Change
}

// take prints a batch. It returns errCounted when --count is reached.
func (s *stream) take(batch []*event.Event) error {
	out := batch[:0]
	var end error
	for _, e := range batch {
		if st, ok := e.Payload.(event.ServerState); ok {
			s.followed = true
			s.connected = s.connected || st.State == event.Ready || st.StillConnected
		}
		if s.keep != nil && !s.keep(e) {
			continue
		}
		out = append(out, s.decorate(e))
		if s.counts(e) {
			s.counted++
		}
		if s.flags.count > 0 && s.counted >= s.flags.count {
			end = errCounted
			break
		}
	}
	if len(out) > 0 {
		if err := s.write(out...); err != nil {
			return err
		}
	}
	return end
}

// decorate returns a copy of the event with the content and diff that the flags ask for.
func (s *stream) decorate(e *event.Event) *event.Event {
	u, ok := e.Payload.(event.ResourceUpdated)
	if !ok || !s.flags.content && !s.flags.diff {
		return e
	}
	if s.flags.content {
		u.Content = u.Text
	}
	if s.flags.diff && u.Text != nil && u.PreviousText != nil {
		if d := diff.Unified(e.ResourceURI, *u.PreviousText, *u.Text); d != "" {
			u.Diff = &d
		}
	}
	decorated := *e
	decorated.Payload = u
	return &decorated
}

// largestBatch bounds the events that are printed together.
const largestBatch = 512

// print prints the events until they end.
func (s *stream) print(_ context.Context, events iter.Seq2[journal.Entry, error]) error {
	var batch []*event.Event
	for entry, err := range events {
		if err != nil {
			return err
		}
		e, err := entry.Event()
		if err != nil {
			return err
		}
		if batch = append(batch, &e); entry.More && len(batch) < largestBatch {
			continue
		}
		if err := s.take(batch); err != nil {
			return err
		}
		batch = batch[:0]
	}
	return nil
}

// filter selects events by --type, --server and --changed-only.
type filter struct {
	types, servers []string
	changedOnly    bool
}

func (f filter) check() error {
	for _, pattern := range slices.Concat(f.types, f.servers) {
		if !glob.Valid(pattern) {
			return usage("invalid glob %q", printable.Line(pattern, 100))
		}
	}
	for _, pattern := range f.types {
		if !slices.ContainsFunc(event.Types(), func(t event.Type) bool { return matches(pattern, string(t)) }) {
			return usageHint(didYouMean(pattern, typeNames(), "mcptrack help events lists them"), "unknown event type %q", printable.Line(pattern, 100))
		}
	}
	return nil
}

func typeNames() []string {
	var names []string
	for _, t := range event.Types() {
		names = append(names, string(t))
	}
	return names
}

// all reports whether the filter keeps every event.
func (f filter) all() bool { return len(f.types)+len(f.servers) == 0 && !f.changedOnly }

// keep reports whether the filter keeps the event.
func (f filter) keep(e *event.Event) bool {
	if u, ok := e.Payload.(event.ResourceUpdated); ok && f.changedOnly && u.Changed != nil && !*u.Changed {
		return false
	}
	return f.keepsType(e) && (len(f.servers) == 0 || e.ServerID == "" || matchesAny(f.servers, e.ServerID))
}

func (f filter) keepsType(e *event.Event) bool {
	return len(f.types) == 0 || matchesAny(f.types, string(e.Type()))
}

// counts reports whether --count counts the event: a change, or any event if --type
// selects them.
func (f filter) counts(e *event.Event) bool { return len(f.types) > 0 || isChange(e) }

func matchesAny(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, s) })
}

func matches(pattern, s string) bool { return pattern == s || glob.Match(pattern, s) }
