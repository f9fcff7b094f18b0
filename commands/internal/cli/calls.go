package cli

import (
	"context"
	"errors"
	"log/slog"
	"sort"

	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
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

// Newest returns the newest calls of all logs that a query selects, oldest first.
func (l CallLogs) Newest(ctx context.Context, q calls.Query) (all []calls.Call, err error) {
	q.Newest = q.Limit()
	for _, log := range l {
		list, err := Calls(log).Read(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].ID < all[j].ID })
	return all[max(0, len(all)-q.Limit()):], nil
}

// Close closes the logs. Nothing was written, so errors are irrelevant.
func (l CallLogs) Close() {
	for _, log := range l {
		_ = log.Close()
	}
}
