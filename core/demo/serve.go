package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/vault"
)

const (
	defaultInterval = 2 * time.Second
	minInterval     = 10 * time.Millisecond
	maxInterval     = time.Hour
	// quiet and spacing (see vault.Options) are shorter than a vault's defaults: our saves
	// are atomic, and every change should be visible even at short intervals.
	quiet   = 20 * time.Millisecond
	spacing = 40 * time.Millisecond
)

// Options configure a demo server. The zero value is usable.
type Options struct {
	// Seed determines the lines and messages. 0 is a seed like any other.
	Seed uint64
	// Interval is the time between two ticks; 0 means 2 s. It is clamped to 10 ms to
	// 1 h, also when the tool set_interval changes it.
	Interval time.Duration
	// Now is the clock that the notes show; nil means time.Now.
	Now func() time.Time
	// Version is the server's version; empty means "dev".
	Version string
	// Temp is where the directory of the notes is created; empty means the system's
	// temporary directory.
	Temp string
}

// Serve serves one client over newline-delimited JSON-RPC, like ServeIO of core/mcpserver,
// in the protocol versions with initialize or 2026-07-28. It returns nil when in
// ends, the cause of ctx when ctx ends, and an error if the notes cannot be saved.
func Serve(ctx context.Context, in io.Reader, out io.Writer, opts Options) (err error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	temp, err := NewTempDir(opts.Temp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, temp.Remove()) }()
	sc := newScenario(temp.Dir, opts)
	if err := sc.open(); err != nil {
		return err
	}
	s, err := vault.NewServer(vault.ServerOptions{
		Name: "mcptrack-demo", Title: "mcptrack demo", Version: opts.Version,
		Instructions: "A demo whose notes, tools and prompts change by themselves. Subscribe and watch.",
		CallTool:     sc.callTool, GetPrompt: sc.getPrompt,
		Vault: vault.Options{Dir: temp.Dir, Quiet: quiet, Spacing: spacing, ListSpacing: spacing},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()

	runCtx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() { _ = s.Run(runCtx) }) // ends only with the context
	select {
	case <-s.Ready():
	case <-runCtx.Done():
		return context.Cause(runCtx)
	}
	sc.offer = func(tools, prompts []json.RawMessage) { s.Offer(tools, prompts) }
	sc.offerAll()
	wg.Go(func() {
		if err := sc.run(runCtx); err != nil {
			cancel(err) // the disk is full, for example
		}
	})
	err = s.ServeIO(runCtx, in, out)
	return cmp.Or(context.Cause(ctx), err)
}

// run ticks until ctx ends and returns nil then.
func (s *scenario) run(ctx context.Context) error {
	ticker := time.NewTicker(s.pace())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.paced: // the new interval begins now
			ticker.Reset(s.pace())
		case <-ticker.C:
			if err := s.step(); err != nil {
				return err
			}
		}
	}
}

func clamp(d time.Duration) time.Duration { return min(max(d, minInterval), maxInterval) }
