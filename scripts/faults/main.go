//go:build linux

// Faults injects faults into servers, networks, logs and the tracker while resources and lists
// change, and compares what clients of serve-sse and of a gateway received with the truth. It runs
// the real program. The servers and proxies are part of this process, which knows every version of
// every resource. It prints a table and fails unless every column after the rounds is 0.
//
// Before every fault, one of a pair of resources, tools, prompts and templates replaces the other.
// Clients receive this change; it is undone during the fault.
//
//	lost        resources and list items whose last event is not true, missing ids, gaps without
//	            damage, failed calls
//	stale       events with an older version than the previous event, names that the gateway does
//	            not list, lists that a client gets more than a second after other clients
//	duplicated  events that repeat what was known, ids used twice
//	hung        whatever did not happen in time
//	leaked      remaining goroutines, descriptors and processes
//
// usage: scripts/faults.sh [-rounds N] [-only TEXT] [-kills 1000] [-flips 200] [-soak 30m] [-cluster 10m]
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

type options struct {
	bin, nats     string
	peers         string
	only          string
	rounds        int
	kills, flips  int
	soak, cluster time.Duration
	dir, disk     string // the disk of trackers
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == "relay" {
		if err := relay(os.Args[2]); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "relay:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.StringVar(&o.bin, "mcptrack", ".cache/bin/mcptrack-faults", "the program to test")
	flag.StringVar(&o.nats, "nats", ".cache/bin/nats-server", "the NATS server")
	flag.StringVar(&o.peers, "peers", "testdata/peers", "the folder of SDK servers that scripts/peers.sh installs")
	flag.StringVar(&o.only, "only", "", "only rows whose name contains this `TEXT`")
	flag.IntVar(&o.rounds, "rounds", 1, "rounds of every row")
	flag.IntVar(&o.kills, "kills", 0, "kill the tracker `N` times while clients read, instead of running every row")
	flag.IntVar(&o.flips, "flips", 0, "start the tracker on `N` damaged logs, instead of running every row")
	flag.DurationVar(&o.soak, "soak", 0, "inject random faults for this long, instead of running every row")
	flag.DurationVar(&o.cluster, "cluster", 0, "inject faults into three NATS nodes and three trackers for this long, instead of running every row")
	flag.Parse()
	dir, err := os.MkdirTemp("", "mcptrack-faults-")
	if err == nil {
		o.dir = dir
		err = run(o)
	}
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "faults: %v (logs in %s)\n", err, dir)
		os.Exit(1)
	}
	_ = os.RemoveAll(dir)
}

// errFaults means that the table shows faults.
var errFaults = fmt.Errorf("not every column is 0")

func run(o options) error {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		os.Exit(130) // and all children end
	}()
	report := newReport()
	var err error
	switch {
	case o.cluster > 0:
		err = clusterUnderFaults(o, report)
	case o.kills > 0:
		err = killsRow(o.kills)(o, report, killsName)
	case o.flips > 0:
		err = flipsRow(o.flips)(o, report, flipsName)
	case o.soak > 0:
		err = withSuite(o, report, nil, func(s *suite) error { return soak(o, s) })
	default:
		err = matrix(o, report)
	}
	if !report.print() && err == nil {
		err = errFaults
	}
	return err
}

func (o options) selects(name string) bool { return strings.Contains(name, o.only) }

// withSuite runs f with a tracker that follows a server of every transport and era, and the servers
// that more returns.
func withSuite(o options, report *report, more func(*oracle) ([]*fixture, error), f func(*suite) error) error {
	s := &suite{oracle: newOracle(), report: report, tracker: &tracker{bin: o.bin, dir: o.dir, addr: freeAddr(), disk: o.disk,
		args: []string{"--data-dir", filepath.Join(o.dir, "data")}}}
	for _, w := range ways() {
		st, err := newFixture(w, w.String(), "", s.oracle)
		if err != nil {
			return err
		}
		s.fixtures = append(s.fixtures, st)
	}
	if more != nil {
		fixtures, err := more(s.oracle)
		if err != nil {
			return err
		}
		s.fixtures = append(s.fixtures, fixtures...)
	}
	if err := s.configure(); err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	if err := s.baseline(); err != nil {
		return err
	}
	feed, err := follow(s.tracker, s.oracle)
	if err != nil {
		return err
	}
	s.feed = feed
	err = f(s)
	s.feed.close()
	s.finish()
	return err
}

// baseline waits until the tracker knows all contents.
func (s *suite) baseline() error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		missing := ""
		for _, st := range s.fixtures {
			known, err := s.contents(st.id, s.oracle)
			for key, v := range s.oracle.of(st.id) {
				if err != nil || key.list == "" && v != gone && known[key] != v {
					missing = fmt.Sprint(st.id, " ", err)
				}
			}
		}
		if missing == "" {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the contents are not known within a minute: %s", missing)
		}
	}
}

// finish stops the tracker and counts leftover processes.
func (s *suite) finish() {
	s.result = result{rounds: 1}
	s.ended(syscall.SIGTERM)
	time.Sleep(500 * time.Millisecond)
	for _, st := range s.fixtures {
		if n := st.leftover(); n > 0 {
			s.result.leaked += n
			s.report.note("%s: %d processes are left", st.id, n)
		}
		st.close()
	}
	s.report.row("exit", "all", s.result)
}

// grown counts the goroutines and descriptors that the tracker has gained.
func (s *suite) grown(before usage, what string) {
	r := result{rounds: 1}
	after, err := s.usage()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && (err != nil || after.goroutines > before.goroutines+20 || after.files > before.files+20); {
		time.Sleep(time.Second)
		after, err = s.usage()
	}
	if err != nil {
		r.hung++
		s.report.note("no metrics: %v", err)
	}
	r.leaked = max(0, after.goroutines-before.goroutines-20) + max(0, after.files-before.files-20)
	s.report.note("%s: goroutines %d, then %d; descriptors %d, then %d", what, before.goroutines, after.goroutines, before.files, after.files)
	s.report.row("growth", "all", r)
}

// matrix runs every row.
func matrix(o options, report *report) error {
	var slow sync.Map // fixture → its fault
	err := withSuite(o, report, func(oracle *oracle) (fixtures []*fixture, err error) {
		for i, f := range slowFaults() {
			if !o.selects(f.name) {
				continue
			}
			for _, w := range ways() {
				if f.on != nil && !f.on(w) {
					continue
				}
				extra := ""
				if f.name == "never pushes" {
					extra = `, "safetyInterval": "5s", "pollInterval": "2s"`
				}
				st, err := newFixture(w, fmt.Sprintf("%s-slow%d", w, i), extra, oracle)
				if err != nil {
					return nil, err
				}
				slow.Store(st, f)
				fixtures = append(fixtures, st)
			}
		}
		return fixtures, nil
	}, func(s *suite) error {
		before, err := s.usage()
		if err != nil {
			return err
		}
		var running sync.WaitGroup
		for _, st := range s.fixtures {
			running.Go(func() {
				for range o.rounds {
					if f, ok := slow.Load(st); ok {
						f.(fault).run(st, s.feed, report)
						st.docs.Heal()
						continue
					}
					for _, f := range faults() {
						if o.selects(f.name) && (f.on == nil || f.on(st.way)) {
							f.run(st, s.feed, report)
						}
					}
				}
			})
		}
		running.Wait()
		s.grown(before, "rows of servers")
		for range o.rounds {
			for _, r := range restarts() {
				if o.selects(r.name) {
					r.run(s)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for range o.rounds {
		for _, row := range others() {
			if !o.selects(row.name) {
				continue
			}
			if err := row.run(o, report, row.name); err != nil {
				return fmt.Errorf("%s: %w", row.name, err)
			}
		}
	}
	return nil
}

// other is a row that starts its own programs.
type other struct {
	name string
	run  func(options, *report, string) error
}

func others() []other {
	return []other{
		{"gateway, HTTP server away for 0.3 s", gatewayRestarts}, {"gateway clients", gatewayClients}, {"gateway events", gatewayEvents}, {"server of the TypeScript SDK", realPeers}, {"disk full", diskFull}, {"inject resumes", injectResumes}, {"NATS restarts", natsRestarts},
		{killsName, killsRow(25)}, {flipsName, flipsRow(25)},
	}
}

// Rows that can be run alone and longer.
const (
	killsName = "tracker killed while clients read"
	flipsName = "damaged log at the start"
)

// soak injects random faults.
func soak(o options, s *suite) error {
	before, err := s.usage()
	if err != nil {
		return err
	}
	end := time.Now().Add(o.soak)
	for part := 1; time.Now().Before(end); part++ {
		// In each part the servers fail independently, and then the tracker fails.
		until := time.Now().Add(min(4*time.Minute, time.Until(end)))
		var running sync.WaitGroup
		for _, st := range s.fixtures {
			running.Go(func() {
				for time.Now().Before(until) {
					f := faults()[rand.IntN(len(faults()))]
					if f.on == nil || f.on(st.way) {
						f.run(st, s.feed, s.report)
					}
				}
			})
		}
		running.Wait()
		s.grown(before, fmt.Sprint("part ", part))
		rows := restarts()
		rows[rand.IntN(len(rows))].run(s)
		if err := s.baseline(); err != nil {
			s.report.note("%v", err)
		}
		time.Sleep(5 * time.Second)
		if before, err = s.usage(); err != nil {
			return err
		}
	}
	return nil
}

// freeAddr returns an address on which nothing listens now.
func freeAddr() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "127.0.0.1:8799"
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// result counts the outcome of the rounds of one row.
type result struct {
	rounds, lost, stale, duplicated, hung, leaked int
	slowest                                       time.Duration // from the end of the fault to the truth
}

func (r *result) add(o result) {
	r.rounds += o.rounds
	r.lost += o.lost
	r.stale += o.stale
	r.duplicated += o.duplicated
	r.hung += o.hung
	r.leaked += o.leaked
	r.slowest = max(r.slowest, o.slowest)
}

func (r *result) bad() bool { return r.lost+r.stale+r.duplicated+r.hung+r.leaked > 0 }

// report is the table.
type report struct {
	mu    sync.Mutex // guards what follows
	rows  map[string]*result
	order []string
	notes []string
}

func newReport() *report { return &report{rows: map[string]*result{}} }

// row adds the result of a round.
func (p *report) row(name, on string, r result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := fmt.Sprintf("%-44s\t%s", name, on)
	if p.rows[key] == nil {
		p.rows[key] = new(result)
		p.order = append(p.order, key)
	}
	p.rows[key].add(r)
}

// note keeps a line that explains a number. It ignores repetitions.
func (p *report) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.notes) == 200 || slices.Contains(p.notes, line) {
		return
	}
	p.notes = append(p.notes, line)
	_, _ = fmt.Fprintln(os.Stderr, time.Now().Format(time.TimeOnly), line)
}

// print prints the table and reports whether every count is 0.
func (p *report) print() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	line := func(name string, r *result) {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%v\n", name, r.rounds, r.lost, r.stale, r.duplicated, r.hung, r.leaked, r.slowest.Round(10*time.Millisecond))
	}
	_, _ = fmt.Fprintln(w, "fault\ton\trounds\tlost\tstale\tduplicated\thung\tleaked\tslowest")
	var sum result
	slices.Sort(p.order)
	for _, key := range p.order {
		line(key, p.rows[key])
		sum.add(*p.rows[key])
	}
	line("all\t", &sum)
	_ = w.Flush()
	for _, n := range p.notes {
		_, _ = fmt.Println(n)
	}
	return sum.rounds > 0 && !sum.bad()
}
