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
	// quiet and spacing are shorter than for people's vaults: our saves are whole,
	// and who asks for a quick rhythm wants to see all of it.
	quiet   = 20 * time.Millisecond
	spacing = 40 * time.Millisecond
)

// Options of a demo server. The zero value is usable.
type Options struct {
	// Seed chooses which lines and messages come. 0 is a seed like any other.
	Seed uint64
	// Interval is the time between two ticks. 0: 2 s. It is held within 10 ms
	// and 1 h, also when the tool set_interval changes it.
	Interval time.Duration
	// Now is the clock whose time is shown. Nil: time.Now.
	Now func() time.Time
	// Version is what the server says of itself. Empty: "dev".
	Version string
	// Temp is where the folder of notes is made. Empty: the system's folder for
	// temporary files.
	Temp string
}

// Serve serves one client that speaks newline-delimited JSON-RPC, of the
// initialize era or of 2026-07-28, until in ends (nil) or ctx is done (its
// cause), in the manner of ServeIO of core/serve. An error is also that the folder
// cannot be made.
func Serve(ctx context.Context, in io.Reader, out io.Writer, opts Options) (err error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	home, err := OpenHome(opts.Temp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, home.Remove()) }()
	o := newOffice(home.Dir, opts)
	if err := o.open(); err != nil {
		return err
	}
	s, err := vault.NewServer(vault.ServerOptions{
		Name: "mcptrack-demo", Title: "mcptrack demo", Version: opts.Version,
		Instructions: "A demo whose notes, tools and prompts change by themselves. Subscribe and watch.",
		CallTool:     o.callTool, GetPrompt: o.getPrompt,
		Vault: vault.Options{Dir: home.Dir, Quiet: quiet, Spacing: spacing, ListSpacing: spacing},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()

	ours, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() { _ = s.Run(ours) }) // ends with the context alone
	select {
	case <-s.Ready():
	case <-ours.Done():
		return context.Cause(ours)
	}
	o.offer = func(tools, prompts []json.RawMessage) { s.Offer(tools, prompts) }
	o.offerAll()
	wg.Go(func() {
		if err := o.run(ours); err != nil {
			cancel(err) // the disk is full, say
		}
	})
	err = s.ServeIO(ours, in, out)
	return cmp.Or(context.Cause(ctx), err)
}

// run ticks until ctx ends, which is no error.
func (o *office) run(ctx context.Context) error {
	ticker := time.NewTicker(o.pace())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.paced: // counted from now
			ticker.Reset(o.pace())
		case <-ticker.C:
			if err := o.step(); err != nil {
				return err
			}
		}
	}
}

func clamp(d time.Duration) time.Duration { return min(max(d, minInterval), maxInterval) }
