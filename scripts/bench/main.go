//go:build linux

// Command bench compares mcptrack with what users would write or pick instead,
// all on this machine, in one run, one after another in turns. It prints the
// medians, the ratios with the limits that the project has set itself, and
// writes them as JSON. A missed limit makes it exit 1.
//
// The servers and the reference clients that it runs are this same program
// under other names (blast, tiny, bare, floor) and those of testdata/peers.
// It uses mcp-go, the library that mcptrack is built on, for tiny and bare.
// It needs Linux: a child subreaper sees servers that outlive their client.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// A bench is one run of the harness.
type bench struct {
	self     string // this program
	mcptrack string
	node     string
	peers    string // the folder testdata/peers
	tmp      string
	runs     int
	dirs     int // data directories so far
	report   *report

	journalTest string // the test program of core/journal
}

func main() {
	if err := dispatch(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func dispatch(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "blast":
			return runBlast(args[1:], os.Stdin, os.Stdout)
		case "tiny":
			return runTiny()
		case "bare":
			return runBare(args[1:])
		case "floor":
			return runFloor(args[1:])
		case "many":
			return runMany(args[1:], os.Stdin, os.Stdout)
		}
	}
	return runBench(args)
}

func runBench(args []string) error {
	// Only the harness: the servers and clients die of SIGTERM like others do.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := &bench{report: newReport()}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&b.mcptrack, "mcptrack", "", "the program to measure")
	flags.StringVar(&b.peers, "peers", "testdata/peers", "where the npm peers are installed")
	flags.StringVar(&b.journalTest, "journal", "", "the test program of core/journal, which knows how to fill a log")
	flags.IntVar(&b.runs, "runs", 5, "how often to measure, at least; cheap things are measured more often")
	only := flags.String("only", "", "scenarios, comma-separated: version, list, ready, latency, cpu, isolation, sse, journal, inject, vault, gateway, webhooks, top (default all)")
	out := flags.String("out", "", "JSON file to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if b.mcptrack == "" || b.runs < 1 || flags.NArg() > 0 {
		return errors.New("usage: bench -mcptrack FILE [-peers DIR] [-journal FILE] [-runs N] [-only LIST] [-out FILE]")
	}
	if err := b.prepare(); err != nil {
		return err
	}
	defer os.RemoveAll(b.tmp)

	for _, s := range []struct {
		name string
		run  func(context.Context) error
	}{{"version", b.version}, {"list", b.list}, {"ready", b.ready}, {"latency", latencyBench{b}.latency}, {"cpu", cpuBench{b}.cpu}, {"isolation", b.isolation}, {"sse", b.sse}, {"journal", journalBench{b}.journal}, {"inject", injectBench{b}.inject}, {"vault", vaultBench{b}.vault}, {"gateway", gatewayBench{b}.gateway}, {"webhooks", webhookBench{b}.webhooks}, {"top", topBench{b}.top}} {
		if *only != "" && !strings.Contains(","+*only+",", ","+s.name+",") {
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring", s.name)
		b.report.fail(s.name, s.run(ctx))
	}
	if *out != "" {
		if err := b.report.write(*out); err != nil {
			return err
		}
	}
	if err := b.report.print(os.Stdout); err != nil {
		return err
	}
	return b.verdict()
}

func (b *bench) prepare() error {
	if err := adoptOrphans(); err != nil {
		return err
	}
	var err error
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.peers, err = filepath.Abs(b.peers); err != nil {
		return err
	}
	if b.mcptrack, err = filepath.Abs(b.mcptrack); err != nil {
		return err
	}
	if b.journalTest != "" {
		if b.journalTest, err = filepath.Abs(b.journalTest); err != nil {
			return err
		}
	}
	b.node = filepath.Join(b.peers, "node_modules", ".bin", "node")
	b.tmp, err = os.MkdirTemp("", "mcptrack-bench")
	return err
}

func (b *bench) verdict() error {
	missed := 0
	for _, g := range b.report.Goals {
		if !g.Met {
			missed++
		}
	}
	if missed+len(b.report.Failed) > 0 {
		return fmt.Errorf("%d limits missed, %d scenarios not measured", missed, len(b.report.Failed))
	}
	return nil
}
