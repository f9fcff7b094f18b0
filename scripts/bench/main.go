//go:build linux

// Bench compares mcptrack with its alternatives, which take turns on this machine in one run. It
// prints medians, and ratios with their limits, and writes them as JSON. It exits with 1 if a limit
// is missed.
//
// The server and the reference clients that it runs are this same program under the names blast,
// bare and floor, the program empty, and testdata/peers/client.mjs. bare uses mcp-go, the library
// that mcptrack is built on. What one process can show is a benchmark of its package, and bench
// runs it. It needs Linux: a child subreaper sees servers that outlive their client.
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
	"syscall"
	"time"
)

// A bench is one run of the harness.
type bench struct {
	self    string   // this program
	built   string   // the folder with mcptrack, mcptrack-attach, empty and the programs of benchmarks
	peers   string   // the folder testdata/peers
	tmp     string   // the home of all programs, and the folder in which they work
	env     []string // of all programs
	runs    int
	configs int // written so far
	report  *report
}

func (b *bench) mcptrack() string { return filepath.Join(b.built, "mcptrack") }

// A scenario is measured as a whole, or not.
type scenario struct {
	name   string
	run    func(context.Context) error
	limits []limit
}

// scenarios are all of them, in the order in which they are measured.
func (b *bench) scenarios() []scenario {
	return []scenario{
		{"start", b.start, []limit{
			atMost(26, "program", "size, stripped"),
			ratio(2, "version", "wall", "empty program"),
			atMost(14, "version", "peak RSS"),
			// A program that prints what it knows, and one that starts a server first.
			atMost(50, "first --help", "wall"),
			atMost(50, "first validate", "wall"),
			atMost(300, "first list", "wall"),
			atMost(3000, "first watch --demo", "wall"), // the demo changes after two seconds
			atMost(300, "first serve-sse --demo", "wall"),
		}},
		{"list", b.list, []limit{
			ratio(1.25, "list native", "wall", "mcp-go"),
			ratio(0.1, "list native", "wall", "TypeScript"),
			ratio(1.1, "list everything", "wall", "floor"),
			atMost(20, "list native", "peak RSS"),
		}},
		{"ready", b.ready, []limit{
			ratio(1.2, "ready 1000", "wall", "mcp-go"),
			atMost(5000, "ready 100 x 100", "wall"),
		}},
		{"latency", b.latency, []limit{
			ratio(1.1, "latency 500/s", "p50", "mcp-go"),
			ratio(2, "latency 500/s", "p99", "mcp-go"),
			atMost(0, "latency 500/s", "lost"),
		}},
		{"flood", b.flood, []limit{
			ratio(1.2, "100,000 updates", "CPU", "mcp-go"),
			atMost(22, "100,000 updates", "RSS after"),
			ratio(1.5, "calm beside a flood", "p99", "alone"),
		}},
		{"feed", b.feed, []limit{
			atMost(0, "feed 1000 x 100/s", "lost"),
			atMost(100, "feed 1000 x 100/s", "p99"),
			atMost(30, "feed 1000 x 100/s", "RSS per idle client"),
			atLeast(500_000, "feed FanOut/1000", "deliveries"),
		}},
		{"gateway", func(ctx context.Context) error { return b.benchmark(ctx, "gateway", "^BenchmarkCall$") }, []limit{
			atMost(0.3, "gateway Call", "p99-added"),
		}},
		{"attach", b.attach, []limit{
			atMost(15, "attach call", "first answer"),
			atMost(8, "attach call", "peak RSS"),
			atMost(0.3, "attach call", "added, p99"),
		}},
		{"share", b.share, []limit{
			ratio(1.0/shareSessions, "share 8 x 4", "server processes", "direct"),
			ratio(0.3, "share 8 x 4", "PSS", "direct"),
			ratio(1.5, "share 8 x 4", "first session", "direct"), // it starts the daemon, too
			atMost(100, "share 8 x 4", "last session"),
			atMost(50, "share 8 x 4", "list"),
		}},
		{"log", func(ctx context.Context) error {
			return errors.Join(b.benchmark(ctx, "sqlitelog", "^BenchmarkAppend$/^always$/^10000$"),
				b.benchmark(ctx, "sqlitelog", "^Benchmark(Store|Replay)$/^(always|all|tail10|reopen)$"))
		}, []limit{
			atLeast(50_000, "sqlitelog Append/always/10000", "events"),
			atLeast(200_000, "sqlitelog Replay/all", "events"),
		}},
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

// dispatch runs the harness, or one of the programs that it starts.
func dispatch(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "blast":
			return runBlast(args[1:], os.Stdin, os.Stdout)
		case "bare":
			return runBare(args[1:])
		case "floor":
			return runFloor(args[1:])
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
	flags.StringVar(&b.built, "built", ".cache/bench", "where the programs to measure are built")
	flags.StringVar(&b.peers, "peers", "testdata/peers", "where the npm peers are installed")
	flags.IntVar(&b.runs, "runs", 3, "how often to measure, at least; cheap things are measured more often")
	only := flags.String("only", "", "names of scenarios, comma-separated (default all)")
	out := flags.String("out", "", "JSON file to write (default none)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if b.runs < 1 || flags.NArg() > 0 {
		return errors.New("see bench -help")
	}
	wanted, err := b.selected(*only)
	if err != nil {
		return err
	}
	if err := b.prepare(); err != nil {
		return err
	}
	defer os.RemoveAll(b.tmp)
	for _, s := range wanted {
		fmt.Fprintf(os.Stderr, "measuring %s\n", s.name)
		began := time.Now()
		b.report.fail(s.name, s.run(ctx))
		b.report.check(s.limits)
		fmt.Fprintf(os.Stderr, "measured %s in %.1f s\n", s.name, time.Since(began).Seconds())
	}
	b.report.Seconds = time.Since(b.report.Time).Seconds()
	return errors.Join(b.report.write(*out), b.report.print(os.Stdout), b.report.verdict())
}

// selected returns the scenarios that the list names, all if it is empty.
func (b *bench) selected(list string) (wanted []scenario, err error) {
	names := strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
	for _, s := range b.scenarios() {
		if list == "" || slices.Contains(names, s.name) {
			wanted = append(wanted, s)
		}
	}
	if list != "" && len(wanted) != len(names) || len(wanted) == 0 {
		return nil, fmt.Errorf("-only %q names no scenario, or names it twice", list)
	}
	return wanted, nil
}

// prepare gives the programs a home of their own, so that nothing of the user's is measured.
func (b *bench) prepare() error {
	var err1, err2, err3, err4 error
	b.self, err1 = os.Executable()
	b.built, err2 = filepath.Abs(b.built)
	b.peers, err3 = filepath.Abs(b.peers)
	b.tmp, err4 = os.MkdirTemp("", "mcptrack-bench")
	b.env = append(os.Environ(), "HOME="+b.tmp, "XDG_RUNTIME_DIR="+b.tmp, "MCPTRACK_SOCKET="+filepath.Join(b.tmp, "daemon.sock"),
		"XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "XDG_DATA_HOME=", "MCPTRACK_CONFIG=")
	// Servers that outlive their client become children of this process, so that they are seen.
	const setChildSubreaper = 36 // prctl(2)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		return errno
	}
	return errors.Join(err1, err2, err3, err4)
}
