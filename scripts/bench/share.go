//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	calls        = 3000
	warmCalls    = 200 // before them
	attachStarts = 20

	shareSessions = 8
	shareServers  = 4

	// settled is how long processes are left alone before their memory is read.
	settled = time.Second
)

// attach measures mcptrack-attach before a daemon and a server that answers immediately: its
// start, its memory, and what both add to a call.
func (b *bench) attach(ctx context.Context) error {
	for range b.runs {
		if err := b.attachOnce(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) attachOnce(ctx context.Context) (err error) {
	const scenario = "attach call"
	server := b.blastArgv(load{resources: 10})
	through, err := b.attached([][]string{server})
	if err != nil {
		return err
	}
	var started []*process
	defer func() { err = errors.Join(err, closeAll(started), b.stopDaemon(ctx)) }()
	for _, argv := range [][]string{server, through[0]} { // the second starts the daemon, and keeps it awake
		p, err := b.open(ctx, argv)
		if err != nil {
			return err
		}
		started = append(started, p)
	}
	for range attachStarts {
		for i, client := range []string{"direct", "mcptrack"} {
			p, err := b.launch(ctx, false, [][]string{server, through[0]}[i]...)
			if err != nil {
				return err
			}
			err = p.initialize()
			took := time.Since(p.began)
			if err := errors.Join(err, p.close()); err != nil {
				return err
			}
			b.report.add(scenario, "first answer", "ms", client, milliseconds(took))
		}
	}
	var took [2][]float64 // ms
	params := json.RawMessage(`{"name":"t000","arguments":{"text":"hello"}}`)
	for n := range warmCalls + calls {
		for i, p := range started { // in turns, so that both see the same machine
			began := time.Now()
			if _, err := p.ask("tools/call", params); err != nil {
				return err
			}
			if n >= warmCalls {
				took[i] = append(took[i], milliseconds(time.Since(began)))
			}
		}
	}
	b.report.percentiles(scenario, "ms", "direct", took[0])
	b.report.percentiles(scenario, "ms", "mcptrack", took[1])
	p50, p99 := calls/2, calls*99/100 // both are sorted
	b.report.add(scenario, "added, p50", "ms", "mcptrack", took[1][p50]-took[0][p50])
	b.report.add(scenario, "added, p99", "ms", "mcptrack", took[1][p99]-took[0][p99])
	peak, err := memory(started[1].cmd.Process.Pid, "status", "VmHWM")
	b.report.add(scenario, "peak RSS", "MiB", "mcptrack", peak)
	return err
}

// attached returns the commands by which a host reaches servers through the daemon.
func (b *bench) attached(servers [][]string) ([][]string, error) {
	entries := map[string]any{}
	for i, argv := range servers {
		entries[fmt.Sprint("s", i)] = map[string]any{"command": argv[0], "args": argv[1:]}
	}
	file, err := b.writeConfig(entries)
	var argvs [][]string
	for i := range servers {
		argvs = append(argvs, []string{filepath.Join(b.built, "mcptrack-attach"), fmt.Sprint("s", i), "--config", file})
	}
	return argvs, err
}

// share compares sessions of a host, in one folder and with some servers each, that start the
// servers themselves, with sessions that start mcptrack-attach.
func (b *bench) share(ctx context.Context) error {
	var direct [][]string
	for range shareServers {
		direct = append(direct, b.everything())
	}
	through, err := b.attached(direct)
	if err != nil {
		return err
	}
	for range b.seldom() {
		err1 := b.sessions(ctx, "direct", direct)
		err2 := b.sessions(ctx, "mcptrack", through)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
	}
	return nil
}

// sessions opens sessions one after another, and measures how long that takes, the processes, and
// the command list, which uses the daemon if there is one.
func (b *bench) sessions(ctx context.Context, client string, argvs [][]string) (err error) {
	const scenario = "share 8 x 4"
	var all []*process
	defer func() {
		err = errors.Join(err, closeAll(all))
		if client == "mcptrack" {
			err = errors.Join(err, b.stopDaemon(ctx))
		}
		err = errors.Join(err, reapOrphans())
	}()
	for i := range shareSessions {
		began := time.Now()
		session, err := b.openAll(ctx, argvs)
		all = append(all, session...)
		if err != nil {
			return err
		}
		if metric := map[int]string{0: "first session", shareSessions - 1: "last session"}[i]; metric != "" {
			b.report.add(scenario, metric, "ms", client, milliseconds(time.Since(began)))
		}
	}
	time.Sleep(settled)
	running := descendants(os.Getpid())
	servers := len(running)
	if client == "mcptrack" {
		servers -= len(all) + 1 // the relays and the daemon
		p, err := b.launch(ctx, false, append([]string{b.mcptrack(), "list", "--json"}, argvs[0][2:]...)...)
		if err != nil {
			return err
		}
		if err := p.exit(); err != nil {
			return err
		}
		b.report.add(scenario, "list", "ms", client, milliseconds(time.Since(p.began)))
	}
	pss, err := proportional(running)
	b.report.add(scenario, "processes", "", client, float64(len(running)))
	b.report.add(scenario, "server processes", "", client, float64(servers))
	b.report.add(scenario, "PSS", "MiB", client, pss)
	return err
}

// stopDaemon stops the daemon and waits until it and its servers are gone.
func (b *bench) stopDaemon(ctx context.Context) error {
	p, err := b.launch(context.WithoutCancel(ctx), false, b.mcptrack(), "daemon", "stop") // also if the bench is interrupted
	if err != nil {
		return err
	}
	return errors.Join(p.exit(), reapOrphans())
}
