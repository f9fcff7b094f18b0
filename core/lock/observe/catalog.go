package observe

import (
	"context"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/gateway/upstream"
	"github.com/mcptrack/mcptrack/core/lock"
)

// observeCatalog reads an HTTP catalog, as a gateway does. Its requests have the timeout of the entry.
func observeCatalog(ctx context.Context, srv config.Server, opts Options) Result {
	up, err := upstream.New(upstream.FromConfig(srv))
	if err != nil {
		return Result{Server: srv, Err: err}
	}
	polling, cancel := context.WithCancel(ctx)
	var run sync.WaitGroup
	run.Go(func() { up.Run(polling) })
	err = up.Settled(ctx)
	cancel()
	run.Wait()
	if err != nil {
		return Result{Server: srv, Err: err}
	}
	o := lock.Observation{lock.SectionTools: {}}
	for _, it := range up.Catalog().Tools {
		o[lock.SectionTools] = append(o[lock.SectionTools], opts.Hashing().Item(lock.Section(catalog.Tools), it.Raw))
	}
	redact(o, srv.Credentials())
	return Result{Server: srv, Offered: o}.launched(ctx, opts)
}
