package observe

import (
	"context"

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
	ended := make(chan struct{}) // closed when Run has returned
	go func() {
		defer close(ended)
		_ = up.Run(ctx) // ends with Close
	}()
	err = up.Settled(ctx)
	up.Close()
	<-ended
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
