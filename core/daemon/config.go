package daemon

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"sync"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/reload"
)

// followed is a config that the daemon keeps up to date with its file, for all groups whose clients read it in the
// same way. It ends with the last of them.
type followed struct {
	d      *Daemon
	key    string       // in d.configs
	guard  *guard.Guard // follows the lock beside the config; nil if the config is not a file
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	// Guarded by d.mu:
	config  *config.Config
	applied uint64 // value of d.edits when config was set
	groups  map[*Group]bool
}

// guard returns a guard with the lock beside a group's config; nil if the config is not a file.
func (d *Daemon) guard(source Source) (*guard.Guard, error) {
	if source.Config.Path == "" {
		return nil, nil
	}
	path, err := filepath.Abs(source.Config.Path)
	if err != nil {
		return nil, err
	}
	return guard.New(guard.Options{Path: guard.Beside(path), Flags: "--config " + printable.Shell(path), Logger: d.opts.Logger})
}

// follow follows the config of a client. d.mu must be held.
func (d *Daemon) follow(who client, source Source, locked *guard.Guard) *followed {
	f := &followed{d: d, key: who.configKey(source), guard: locked, config: source.Config, applied: d.edits, groups: map[*Group]bool{}}
	d.configs[f.key] = f
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(d.life)
	if locked != nil {
		f.tasks.Go(func() { _ = locked.Run(ctx) })
	}
	if source.Follow != nil {
		opts := *source.Follow
		opts.Current, opts.Publish = source.Config, d.opts.Engine.Tracker().Publish
		opts.Apply = func(cfg *config.Config) { f.apply(cfg, math.MaxUint64) } // the last one is the newest
		f.tasks.Go(func() { _ = reload.Run(ctx, opts) })
	}
	return f
}

// endIfUnused ends the following of a config without groups. d.mu must be held.
func (f *followed) endIfUnused() {
	if len(f.groups) == 0 && f.d.configs[f.key] == f {
		delete(f.d.configs, f.key)
		f.cancel()
		f.d.dropped.Go(f.tasks.Wait)
	}
}

// apply gives another version of the config to the groups. If its clients have changed, the groups end,
// because other clients may belong to them than before: these connect again. Their servers stay, because the
// next groups get them. asOf is the value of d.edits when the file was read: a config that was applied since may be
// newer, and stays.
func (f *followed) apply(cfg *config.Config, asOf uint64) {
	d, entries := f.d, map[*Group][]config.Server{}
	d.mu.Lock()
	defer d.mu.Unlock()
	for missing := true; missing; {
		missing = false
		for g := range f.groups {
			if _, ok := entries[g]; ok {
				continue
			}
			d.mu.Unlock() // for what may be slow
			entries[g] = d.entries(g.who, g.source, cfg)
			d.recall(entries[g])
			d.mu.Lock()
			missing = true
			break // the groups may have changed
		}
	}
	if f.applied > asOf {
		return
	}
	d.edits++
	changed := !slices.EqualFunc(cfg.Clients, f.config.Clients, config.Client.Equal)
	f.config, f.applied = cfg, d.edits
	var groups []*Group
	for g := range f.groups {
		if changed {
			g.end()
			continue
		}
		g.set(cfg, entries[g])
		groups = append(groups, g)
	}
	if !changed {
		d.apply(groups...)
	}
}
