//go:build linux

// Bench compares mcptrack with its alternatives, which take turns on this machine in one run. It
// prints medians, and ratios with their limits, and writes them as JSON. It exits with 1 if a limit
// is missed.
//
// The servers and the reference clients that it runs are this same program
// under the names blast, many, tiny, bare and floor, and programs of testdata/peers.
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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
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

	log string // the program of scripts/logbench

	attach    string // mcptrack-attach, beside mcptrack
	published string // the folder with the lockfile of the published servers
	servers   string // the folder where they are installed
}

// A scenario is measured as a whole, or not.
type scenario struct {
	name string
	run  func(context.Context) error
	// prepare makes what run needs; nil: nothing. As nothing is measured meanwhile, those of
	// all scenarios run together.
	prepare func(context.Context) error
	// long scenarios are measured only if -only names them.
	long bool
}

// scenarios are all of them, in the order in which they are measured. Those that prepare
// something come last, so that it is made after most of the measuring.
func (b *bench) scenarios() []scenario {
	return []scenario{
		{name: "version", run: b.version},
		{name: "first", run: b.first},
		{name: "list", run: b.list},
		{name: "ready", run: b.ready},
		{name: "latency", run: b.latency},
		{name: "cpu", run: b.cpu},
		{name: "isolation", run: b.isolation},
		{name: "sse", run: b.sse},
		{name: "journal", run: b.journal},
		{name: "inject", run: b.inject},
		{name: "gateway", run: b.gateway},
		{name: "lock", run: b.lock},
		{name: "webhooks", run: b.webhooks},
		{name: "top", run: b.top},
		{name: "attach", run: b.attached},
		{name: "history", run: b.history, prepare: b.prepareHistory},
		{name: "vault", run: b.vault, prepare: b.prepareVault},
		{name: "share", run: b.share, prepare: b.prepareShare},
		{name: "drift", run: b.drift, prepare: b.prepareDrift, long: true},
	}
}

// often is how many times to measure what takes less than some seconds.
func (b *bench) often() int { return 2*b.runs - 1 }

// seldom is how many times to measure what takes long and differs little from time to time.
func (b *bench) seldom() int { return (b.runs + 1) / 2 }

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
	var names []string
	for _, s := range b.scenarios() {
		names = append(names, s.name)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&b.mcptrack, "mcptrack", "", "the program to measure")
	flags.StringVar(&b.peers, "peers", "testdata/peers", "where the npm peers are installed")
	flags.StringVar(&b.log, "log", "", "the program of scripts/logbench, which fills logs")
	flags.StringVar(&b.published, "published", "scripts/bench/servers", "the lockfile of the published servers is here")
	flags.StringVar(&b.servers, "servers", ".cache/bench/servers", "where they are to be installed")
	flags.IntVar(&b.runs, "runs", 3, "how often to measure, at least; cheap things are measured more often")
	only := flags.String("only", "", "scenarios, comma-separated: "+strings.Join(names, ", ")+" (default all but drift)")
	out := flags.String("out", "", "JSON file to write")
	began := flags.Int64("began", time.Now().Unix(), "when the whole run began, in seconds since 1970")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if b.mcptrack == "" || b.runs < 1 || flags.NArg() > 0 {
		return errors.New("usage: bench -mcptrack FILE [-peers DIR] [-log FILE] [-published DIR] [-servers DIR] [-runs N] [-only LIST] [-out FILE] [-began SECONDS]")
	}
	wanted, err := b.selected(*only)
	if err != nil {
		return err
	}
	if err := b.prepare(); err != nil {
		return err
	}
	defer os.RemoveAll(b.tmp)

	b.measure(ctx, wanted)
	b.report.Seconds = time.Since(time.Unix(*began, 0)).Seconds()
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

// selected returns the scenarios that the list names, all but the long ones if it is empty, and notes the
// others as left out.
func (b *bench) selected(list string) (wanted []scenario, err error) {
	names := strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
	for _, s := range b.scenarios() {
		switch i := slices.Index(names, s.name); {
		case i >= 0:
			names = slices.Delete(names, i, i+1)
			wanted = append(wanted, s)
		case list == "" && !s.long:
			wanted = append(wanted, s)
		default:
			b.report.LeftOut = append(b.report.LeftOut, s.name)
		}
	}
	if len(names) > 0 || len(wanted) == 0 {
		return nil, fmt.Errorf("-only %q names no scenario, or names it twice", list)
	}
	return wanted, nil
}

// measure runs the scenarios, one after another.
func (b *bench) measure(ctx context.Context, wanted []scenario) {
	var unprepared map[string]error // nil before the first scenario that prepares something
	for _, s := range wanted {
		if s.prepare != nil && unprepared == nil {
			unprepared = prepareAll(ctx, wanted)
		}
		err := unprepared[s.name]
		if err == nil {
			fmt.Fprintf(os.Stderr, "measuring %s\n", s.name)
			began := time.Now()
			err = s.run(ctx)
			fmt.Fprintf(os.Stderr, "measured %s in %.1f s\n", s.name, time.Since(began).Seconds())
		}
		b.report.fail(s.name, err)
	}
}

// prepareAll prepares all scenarios together, and returns the errors by the name of the scenario.
func prepareAll(ctx context.Context, wanted []scenario) map[string]error {
	fmt.Fprintln(os.Stderr, "preparing")
	began := time.Now()
	failed := make([]error, len(wanted))
	var wg sync.WaitGroup
	for i, s := range wanted {
		if s.prepare != nil {
			wg.Go(func() { failed[i] = s.prepare(ctx) })
		}
	}
	wg.Wait()
	syscall.Sync() // what is written back later would disturb what is measured
	fmt.Fprintf(os.Stderr, "prepared in %.1f s\n", time.Since(began).Seconds())
	errs := map[string]error{}
	for i, s := range wanted {
		errs[s.name] = failed[i]
	}
	return errs
}

func (b *bench) prepare() error {
	if err := adoptOrphans(); err != nil {
		return err
	}
	var err error
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	for _, path := range []*string{&b.peers, &b.mcptrack, &b.log, &b.published, &b.servers} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	b.attach = filepath.Join(filepath.Dir(b.mcptrack), "mcptrack-attach")
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
