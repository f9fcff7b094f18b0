package commands

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// injectSource is where updates come from.
type injectSource struct {
	from          string
	fromTokenFile string
	stdin         bool
	demo          bool
	noFollow      bool
	holdCommands  bool

	feed feedAddress // what from says; set by check
}

func (s *injectSource) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.from, "from", "", "`URL` of a running serve-sse to take updates from")
	f.StringVar(&s.fromTokenFile, "from-token-file", "", "`FILE` (mode 0600) with its token, instead of MCPTRACK_TOKEN")
	f.BoolVar(&s.stdin, "stdin", false, "take updates from stdin, as NDJSON from watch --json")
	f.BoolVar(&s.demo, "demo", false, "take updates from a built-in server whose resources change")
	f.BoolVar(&s.noFollow, "no-follow-config", false, "do not follow changes of the config")
	f.BoolVar(&s.holdCommands, "no-exec-on-reload", false, "do not start new or changed commands of the config before SIGHUP")
	_ = cmd.MarkFlagFilename("from-token-file")
}

func (s *injectSource) check() (err error) {
	n := 0
	for _, given := range []bool{s.from != "", s.stdin, s.demo} {
		if given {
			n++
		}
	}
	switch {
	case n > 1:
		return usage("--from, --stdin and --demo exclude each other")
	case s.from == "" && s.fromTokenFile != "":
		return usage("--from-token-file is for --from")
	case s.from != "":
		s.feed, err = parseFeed(s.from)
	}
	return err
}

// source feeds a sink.
type source struct {
	// run does so until its context ends, or nothing more comes.
	run func(context.Context, *sink) error
	// reached reports whether there was a source to be heard; nil: always.
	reached func() bool
}

func (o *injectOptions) source(env *Env, g *globals) (*source, error) {
	log := g.logger(env)
	switch {
	case o.stdin:
		return &source{run: func(ctx context.Context, s *sink) error { return readEvents(ctx, env.In, log, o.offer(s)) }}, nil
	case o.from != "":
		f, err := o.follower(env, log)
		if err != nil {
			return nil, err
		}
		return &source{run: func(ctx context.Context, s *sink) error { return f.run(ctx, s, o.offer(s)) }, reached: f.reached.Load}, nil
	}
	cfg := demoConfig(env)
	if !o.demo {
		var err error
		if cfg, err = g.load(env, log); err != nil {
			return nil, err
		}
	}
	if o.noFollow && len(o.wanted(cfg).Servers) == 0 {
		return nil, nothingToFollow(cfg, o.servers)
	}
	return &source{run: func(ctx context.Context, s *sink) error { return o.track(ctx, env, g, cfg, o.offer(s)) }}, nil
}

// offer gives a sink what the filters leave.
func (o *injectOptions) offer(s *sink) func(*event.Event) error {
	return func(e *event.Event) error {
		if e.Type() == event.TypeResourceUpdated && o.keep(e) {
			return s.offer(e)
		}
		s.pass(e.ID)
		return nil
	}
}

// wanted is the part of a config that is to be followed.
func (o *injectOptions) wanted(cfg *config.Config) *config.Config {
	return watchOptions{filter: filter{servers: o.servers}}.tracked(cfg)
}

// track follows the servers of a config, as watch does.
func (o *injectOptions) track(ctx context.Context, env *Env, g *globals, cfg *config.Config, offer func(*event.Event) error) error {
	log := g.logger(env)
	t := tracker.New(tracker.Options{Dial: env.Dial, Session: o.connectFlags.session(env, g), Logger: log, Texts: o.content})
	wanted := o.wanted(cfg)
	t.Apply(wanted)
	if len(wanted.Servers) == 0 {
		log.Warn("no server to follow yet", "file", cfg.Path, "hint", hintFollow(cfg, o.servers))
	}
	feed := &stream{flags: streamFlags{content: o.content}, counts: func(*event.Event) bool { return false }}
	feed.write = func(events ...*event.Event) error {
		for _, e := range events {
			if err := offer(e); err != nil {
				return err
			}
		}
		return nil
	}
	var beside []func(context.Context) error
	if !o.noFollow && !o.demo {
		beside = append(beside, followConfig(env, cfg, o.holdCommands, t, func(next *config.Config) { t.Apply(o.wanted(next)) }, log))
	}
	feed.connected = true // its reachability is not the endpoint's
	return track(ctx, t, feed, beside...)
}

// maxLine is the longest line of NDJSON that is taken: content may be in it.
const maxLine = 4 << 20

// readEvents reads NDJSON to its end. Lines that are no events are counted and
// told, not fatal: the rest of the stream is good.
func readEvents(ctx context.Context, in io.Reader, log *slog.Logger, offer func(*event.Event) error) error {
	lines := make(chan []byte) // from the reader below; closed by it at the end
	var failed error           // valid once lines is closed
	go func() {
		// A read of stdin cannot be cancelled: this ends with the process, or with
		// the next line.
		defer close(lines)
		failed = eachLine(in, func(line []byte) bool {
			select {
			case lines <- line:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	bad := 0
	defer func() {
		if bad > 0 {
			log.Warn("lines of stdin were no events", "lines", bad)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case line, ok := <-lines:
			if !ok {
				return failed
			}
			e, err := readEvent(line)
			if err != nil {
				if bad++; bad == 1 {
					log.Warn("a line of stdin is no event", "err", err)
				}
				continue
			}
			if e == nil {
				continue
			}
			if err := offer(e); err != nil {
				return err
			}
		}
	}
}

// readEvent reads one line; nil for one without anything.
func readEvent(line []byte) (*event.Event, error) {
	line = bytes.TrimSpace(line)
	switch {
	case len(line) == 0:
		return nil, nil
	case len(line) >= maxLine:
		return nil, fmt.Errorf("it is longer than %d bytes", maxLine)
	}
	e := &event.Event{}
	if err := json.Unmarshal(line, e); err != nil {
		return nil, err
	}
	if e.Type() == event.TypeResourceUpdated && (e.ResourceURI == "" || e.ServerID == "") {
		return nil, errors.New("an update of no resource")
	}
	return e, nil
}

// eachLine hands over lines, each with its own memory, until take wants no more or
// the end. A line that is too long comes cut to maxLine bytes.
func eachLine(in io.Reader, take func([]byte) bool) error {
	r := bufio.NewReaderSize(in, 64<<10)
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		line = append(line, piece[:min(len(piece), maxLine-len(line))]...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(line) > 0 && !take(line) {
			return nil
		}
		line = nil
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read stdin: %w", err)
		}
	}
}
