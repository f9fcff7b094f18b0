package cli

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sort"

	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
	"github.com/mcptrack/mcptrack/core/status"
)

// Calls returns the record of calls that is stored with a log, or a record in memory if the log, such as
// one on a cluster, stores none.
func Calls(log journal.Log) calls.Store {
	if stored, ok := log.(*sqlitelog.Log); ok {
		return stored.Calls()
	}
	return new(calls.Memory)
}

// GatewayDir is the default data directory of the gateway.
func (e *Env) GatewayDir() string { return e.StateDir("gateway") }

// CallLogs are logs of other processes that are open for reading their calls.
type CallLogs []journal.Log

// OpenCalls opens the logs in directories, or those that the daemon and the gateway of this user write by
// default. It leaves out directories without a log.
func OpenCalls(ctx context.Context, env *Env, log *slog.Logger, dirs ...string) (CallLogs, error) {
	if len(dirs) == 0 {
		dirs = []string{env.DaemonDir(), env.GatewayDir()}
	}
	var all CallLogs
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		l, err := (&JournalFlags{Dir: dir}).Stored(ctx, env, log)
		if f, ok := errors.AsType[*Failure](err); ok && f.Code == "nothing_stored" {
			continue
		}
		if err != nil {
			all.Close()
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// Newest returns the newest calls of all logs, and of more stores, that a query selects, oldest first.
func (l CallLogs) Newest(ctx context.Context, q calls.Query, more ...calls.Store) (all []calls.Call, err error) {
	q.Newest = q.Limit()
	for _, log := range l {
		more = append(slices.Clip(more), Calls(log)) // callers share the stores
	}
	for _, store := range more {
		list, err := store.Read(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].ID < all[j].ID })
	return all[max(0, len(all)-q.Limit()):], nil
}

// ReadCalls returns a function that returns the newest calls that a query selects, which clients made through
// the daemon or a gateway of this user, or that are in more stores, to servers that are followed.
func ReadCalls(env *Env, log *slog.Logger, followed func() []status.Summary, more ...calls.Store) func(context.Context, calls.Query) ([]calls.Call, error) {
	return func(ctx context.Context, q calls.Query) ([]calls.Call, error) {
		logs, err := OpenCalls(ctx, env, log)
		if err != nil {
			return nil, err
		}
		defer logs.Close()
		list, err := logs.Newest(ctx, q, more...)
		here := followed()
		return slices.DeleteFunc(list, func(c calls.Call) bool {
			return !slices.ContainsFunc(here, func(s status.Summary) bool { return s.ID == c.ServerID })
		}), err
	}
}

// Close closes the logs. Nothing was written, so errors are irrelevant.
func (l CallLogs) Close() {
	for _, log := range l {
		_ = log.Close()
	}
}
