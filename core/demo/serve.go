package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/vault"
)

const (
	defaultInterval = 2 * time.Second
	minInterval     = 10 * time.Millisecond
	maxInterval     = time.Hour
	// quiet and spacing (see vault.Options) are shorter than the defaults of core/vault: the demo
	// saves notes atomically, and every change should be visible even at short intervals.
	quiet   = 20 * time.Millisecond
	spacing = 40 * time.Millisecond
)

// Options configures a demo server. The zero value is usable.
type Options struct {
	// Seed determines the random tips and messages. 0 is an ordinary seed.
	Seed uint64
	// Interval is the time between two ticks; 0 means 2 s. It is clamped to the range 10 ms to 1 h,
	// even when the tool set_interval changes it.
	Interval time.Duration
	// Began is the time at which the scenario began; zero means now. A server that is started again
	// with the same Began continues where the previous one ended, except for changes made by tools.
	Began time.Time
	// Now returns the time displayed in the notes; nil means time.Now.
	Now func() time.Time
	// Version is the version that the server reports; empty means "dev".
	Version string
}

// Serve serves one client over newline-delimited JSON-RPC, like ServeIO in core/mcpserver. It
// supports the protocol versions that use initialize, and 2026-07-28. It returns nil when in
// reaches EOF, the cause of ctx when ctx is cancelled, and an error if the notes cannot be saved.
func Serve(ctx context.Context, in io.Reader, out io.Writer, opts Options) (err error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	dir, err := os.MkdirTemp("", "mcptrack-demo-*") // created with mode 0700
	if err != nil {
		return fmt.Errorf("create the demo's directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sc := newScenario(dir, opts)
	if err := sc.open(); err != nil {
		return err
	}
	s, err := vault.NewServer(vault.ServerOptions{
		Name: "mcptrack-demo", Title: "mcptrack demo", Version: opts.Version,
		Instructions: "A demo whose notes, tools and prompts change by themselves. Subscribe and watch.",
		CallTool:     sc.callTool, GetPrompt: sc.getPrompt,
		Vault: vault.Options{Dir: dir, Quiet: quiet, Spacing: spacing, ListSpacing: spacing},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()

	runCtx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() { _ = s.Run(runCtx) }) // returns only when the context ends
	select {
	case <-s.Ready():
	case <-runCtx.Done():
		return context.Cause(runCtx)
	}
	sc.offer = func(tools, prompts []json.RawMessage) { s.Offer(tools, prompts) }
	sc.offerAll()
	wg.Go(func() {
		if err := sc.run(runCtx); err != nil {
			cancel(err) // for example, because the disk is full
		}
	})
	err = s.ServeIO(runCtx, in, out)
	return cmp.Or(context.Cause(ctx), err)
}

// run performs a tick at every interval until ctx ends, and then returns nil.
func (s *scenario) run(ctx context.Context) error {
	ticker := time.NewTicker(s.pace())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.paced: // the new interval starts now
			ticker.Reset(s.pace())
		case <-ticker.C:
			if err := s.step(); err != nil {
				return err
			}
		}
	}
}

func clamp(d time.Duration) time.Duration { return min(max(d, minInterval), maxInterval) }
