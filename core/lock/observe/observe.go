// Package observe connects to servers and lists what they offer, as observations for the lock. What repeats
// a credential of the config has a problem, and the credential is replaced.
//
// Servers are asked concurrently. Items are hashed as soon as their server has answered, while
// others are still asked. The contents of at most 1,000 resources of a server are read;
// [session.Limits] bounds everything else that a server may send. The results belong to the caller.
package observe

import (
	"context"
	"encoding/json"
	"sort"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/launch"
	"github.com/mcptrack/mcptrack/core/session"
)

// Options configures [Servers].
type Options struct {
	// Probe is passed to [session.Probe]. Its Kinds, Then and Progress are not used.
	Probe session.ProbeOptions
	// Hashing is called when a server has answered, concurrently. If nil, nothing is excluded from hashes.
	Hashing func() lock.Hashing
	// Pinned returns the URIs of the resources of a server whose contents the lock has: they are read
	// too, in addition to those that the config pins. It is called like Hashing. If nil, there are none.
	Pinned  func(server string) []string
	Machine launch.Machine
	// Progress is called with the id of each server after it has been asked, never concurrently. May be nil.
	Progress func(id string)
}

// Result is what one server offers.
type Result struct {
	Server  config.Server
	Offered lock.Observation // nil if Err is set
	// Unknown says in a clause each what of the launch could not be determined; see [launch.Of].
	Unknown []string
	// Err is why the server could not be listed completely.
	Err error
}

// Servers returns one result for each server, in the order of their ids. It has disconnected from all
// servers when it returns.
func Servers(ctx context.Context, servers []config.Server, opts Options) []Result {
	if opts.Hashing == nil {
		opts.Hashing = func() lock.Hashing { return lock.Hashing{} }
	}
	if opts.Pinned == nil {
		opts.Pinned = func(string) []string { return nil }
	}
	opts.Machine = opts.Machine.Remembering()
	results := make([]Result, len(servers))
	var asked sync.WaitGroup
	var progress sync.Mutex // serializes opts.Progress
	slots := make(chan struct{}, atOnce)
	for i, srv := range servers {
		asked.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = observe(ctx, srv, opts)
			if opts.Progress != nil {
				progress.Lock()
				defer progress.Unlock()
				opts.Progress(srv.ID)
			}
		})
	}
	asked.Wait()
	sort.Slice(results, func(i, j int) bool { return results[i].Server.ID < results[j].Server.ID })
	return results
}

// atOnce limits how many servers are asked concurrently.
const atOnce = 32

// observe lists one server, as a client without capabilities.
func observe(ctx context.Context, srv config.Server, opts Options) Result {
	if srv.Transport == config.TransportCatalog {
		return observeCatalog(ctx, srv, opts)
	}
	var pinned []lock.Item
	var reads bool // whether contents were read
	secrets := srv.Credentials()
	probe := opts.Probe
	probe.Kinds, probe.Progress, probe.Complete = nil, nil, true
	probe.Then = func(ctx context.Context, s *session.Session, r session.Report) (err error) {
		secrets = append(secrets, s.Tokens()...)
		known := opts.Pinned(srv.ID)
		if reads = len(srv.PinContent)+len(known) > 0; reads {
			pinned, err = contents(ctx, s, r.Lists[catalog.Resources], srv.PinContent, known, opts.Hashing())
		}
		return err
	}
	r := session.Probe(ctx, []config.Server{srv}, probe)[0]
	if r.Err != nil {
		return Result{Server: srv, Err: r.Err}
	}
	o := observation(r, opts.Hashing())
	if reads {
		o[lock.SectionContents] = pinned
	}
	redact(o, secrets)
	return Result{Server: srv, Offered: o}.launched(ctx, opts)
}

// redact replaces credentials that the server repeats.
func redact(o lock.Observation, secrets []string) {
	if len(secrets) == 0 {
		return
	}
	for _, items := range o {
		for i := range items {
			items[i].Redact(secrets)
		}
	}
}

// launched adds how the server is started or reached. It is determined after the server was asked,
// because npx and uvx install when they start.
func (r Result) launched(ctx context.Context, opts Options) Result {
	l, unknown := launch.Of(ctx, r.Server, opts.Machine)
	definition, err := json.Marshal(l)
	if err != nil {
		return Result{Server: r.Server, Err: err}
	}
	r.Offered[lock.SectionLaunch] = []lock.Item{opts.Hashing().Item(lock.SectionLaunch, definition)}
	r.Unknown = unknown
	return r
}

// observation returns what a server offered.
func observation(r session.Report, h lock.Hashing) lock.Observation {
	o := lock.Observation{lock.SectionCapabilities: {}, lock.SectionInstructions: {}}
	if len(r.Info.RawCapabilities) > 0 {
		o[lock.SectionCapabilities] = []lock.Item{h.Item(lock.SectionCapabilities, r.Info.RawCapabilities)}
	}
	if r.Info.Instructions != "" {
		text, _ := json.Marshal(r.Info.Instructions) // cannot fail
		o[lock.SectionInstructions] = []lock.Item{h.Item(lock.SectionInstructions, text)}
	}
	for _, kind := range catalog.Kinds() {
		if kind == catalog.Skills && !r.Info.Capabilities.Skills {
			continue // an extension that few servers have
		}
		section := lock.Section(kind)
		items := make([]lock.Item, 0, len(r.Lists[kind]))
		for _, it := range r.Lists[kind] {
			items = append(items, h.Item(section, it.Raw))
		}
		o[section] = items
	}
	return o
}
