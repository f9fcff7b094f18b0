//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// clusterSuite starts trackers on a cluster, which share the servers.
func clusterSuite(o options, report *report, nodes []*nats, trackers int) ([]*suite, error) {
	oracle := newOracle()
	var fixtures []*fixture
	for _, w := range ways() {
		for i := range 2 {
			st, err := newFixture(w, fmt.Sprintf("%s-%d", w, i), "", oracle)
			if err != nil {
				return nil, err
			}
			fixtures = append(fixtures, st)
		}
	}
	var all []*suite
	for i := range trackers {
		var urls []string
		for j := range nodes {
			urls = append(urls, "nats://"+nodes[(i+j)%len(nodes)].clients[i].addr)
		}
		s := &suite{oracle: oracle, report: report, tracker: &tracker{bin: o.bin, dir: filepath.Join(o.dir, fmt.Sprint("t", i)), addr: freeAddr(),
			args: []string{"--nats", strings.Join(urls, ",")}, fixtures: fixtures}}
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return nil, err
		}
		if err := s.configure(); err != nil {
			return nil, err
		}
		if err := s.start(); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// log returns the events of the whole log that a tracker serves, each as its line, after
// waiting for the id that the newest of them has now.
func (t *tracker) log() (lines []string, events []event, err error) { return t.logAfter("") }

// logAfter is log for a client that has the events up to an id.
func (t *tracker) logAfter(id string) (lines []string, events []event, err error) {
	var status struct {
		Epoch string
		Seq   uint64
	}
	if err := t.get("/api/status", &status); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := t.events(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = p.Body.Close() }()
	for data := range dataLines(p.Body) {
		var e event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return nil, nil, err
		}
		_, seq := cutID(e.ID)
		if e.Type != "checkpoint" && seq <= status.Seq {
			lines, events = append(lines, data), append(events, e)
		}
		if seq >= status.Seq {
			return lines, events, nil
		}
	}
	return lines, events, errors.New("the log ended early")
}

// judge reads the log of every tracker: the last event of every resource has to be true,
// the versions in order, and the logs equal. All trackers began when base was true.
func judge(all []*suite, base *view) (r result, wrong []at) {
	var first []string
	for i, s := range all {
		lines, events, err := s.log()
		if err != nil {
			r.hung++
			s.report.note("log of tracker %d: %v", i, err)
			continue
		}
		if i > 0 {
			n := min(len(first), len(lines))
			if !slices.Equal(first[:n], lines[:n]) {
				r.duplicated++
				s.report.note("trackers serve different logs")
			}
			continue
		}
		first = lines
		v := base.clone()
		seen := uint64(0)
		for _, e := range events {
			_, seq := cutID(e.ID)
			if seq != seen+1 && seen > 0 {
				r.lost++
				s.report.note("id %d follows %d", seq, seen)
			}
			seen = seq
			if stale, _ := v.take(e); stale > 0 {
				r.stale += stale
				s.report.note("%s: %s of %s is older than what was known, cause %s", e.ID, e.Type, e.ResourceURI, e.Cause)
			}
		}
		wrong = v.wrong("", func(server string) (map[at]int64, error) { return known(all, server) })
	}
	return r, wrong
}

// judgeUntil judges every pause until the logs say what is true or the limit is over.
func judgeUntil(all []*suite, base *view, limit, pause time.Duration) (r result, wrong []at) {
	r, wrong = judge(all, base)
	for end := time.Now().Add(limit); len(wrong)+r.hung > 0 && time.Now().Before(end); r, wrong = judge(all, base) {
		time.Sleep(pause)
	}
	return r, wrong
}

// known returns the contents of a server that any of the trackers knows.
func known(all []*suite, server string) (map[at]int64, error) {
	out := map[at]int64{}
	for _, s := range all {
		contents, err := s.contents(server, s.oracle)
		if err != nil {
			return nil, err
		}
		for key, v := range contents {
			out[key] = max(out[key], v)
		}
	}
	return out, nil
}

// explain notes what is known of a resource whose last event is not true.
func (s *suite) explain(all []*suite, key at) {
	s.report.note("%v: true is version %d", key, s.oracle.of(key.server)[key])
	for i, t := range all {
		versions, err := t.contents(key.server, s.oracle)
		s.report.note("tracker %d knows version %d, state %s, %v", i, versions[key], t.state(key.server), err)
	}
	_, events, err := s.log()
	for _, e := range events {
		if e.ServerID == key.server && (e.ResourceURI == key.uri || e.ResourceURI == "") {
			s.report.note("%s %s %s %s version %d, added %v, removed %v, changed %v %v", e.ID, e.Timestamp, e.Type, e.Cause, s.oracle.version(e.Digest), e.Added, e.Removed, e.Changed, err)
		}
	}
}

// clusterUnderFaults kills, suspends and cuts off three NATS nodes and three trackers at random while
// resources change.
func clusterUnderFaults(o options, report *report) error {
	nodes, err := newCluster(o.nats, o.dir, 3, 3)
	if err != nil {
		return err
	}
	defer func() {
		for _, n := range nodes {
			n.kill()
		}
	}()
	all, err := clusterSuite(o, report, nodes, 3)
	if err != nil {
		return err
	}
	if err := all[0].shared(all, time.Minute); err != nil {
		return err
	}
	base := newView(all[0].oracle)
	time.Sleep(4 * time.Second) // first looks are stored every 2 s
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	report.note("seed %d", seed)
	ctx, stop := context.WithTimeout(context.Background(), o.cluster)
	defer stop()
	var changing sync.WaitGroup
	for _, st := range all[0].fixtures {
		changing.Go(func() {
			for ctx.Err() == nil {
				st.set(st.uri(rand.IntN(4)), rand.IntN(5) > 0)
				if rand.IntN(10) == 0 {
					st.swap(rand.IntN(5) > 0)
				}
				time.Sleep(rand.N(time.Second))
			}
		})
	}
	r := result{}
	for ctx.Err() == nil {
		r.rounds++
		i, d := random.IntN(3), time.Duration(random.IntN(12000))*time.Millisecond
		switch random.IntN(6) {
		case 0: // a node dies
			nodes[i].kill()
			time.Sleep(d)
			err = nodes[i].start()
		case 1: // two nodes die
			nodes[i].kill()
			nodes[(i+1)%3].kill()
			time.Sleep(d)
			err = errors.Join(nodes[i].start(), nodes[(i+1)%3].start())
		case 2: // a tracker dies
			all[i].end(syscall.SIGKILL)
			time.Sleep(d / 2)
			err = all[i].start()
		case 3: // a tracker stops
			all[i].signal(syscall.SIGSTOP)
			time.Sleep(d)
			all[i].signal(syscall.SIGCONT)
		case 4: // a node stops
			_ = nodes[i].cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(d)
			_ = nodes[i].cmd.Process.Signal(syscall.SIGCONT)
		case 5: // a tracker is cut off from all nodes, or a node from the others
			var proxies []*proxy
			if random.IntN(2) == 0 {
				for _, n := range nodes {
					proxies = append(proxies, n.clients[i])
				}
			} else {
				proxies = append(proxies, nodes[i].routes...)
				for j, n := range nodes {
					for k, w := range n.routes {
						if j != i && (k == i || k == i-1 && i > j) {
							proxies = append(proxies, w)
						}
					}
				}
			}
			for _, w := range proxies {
				w.cutOff()
			}
			time.Sleep(d)
			for _, w := range proxies {
				w.mend()
			}
		}
		if err != nil {
			return err
		}
		time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
	}
	changing.Wait()
	began := time.Now()
	for _, st := range all[0].fixtures {
		st.set(st.uri(5), true)
		st.announceLists() // what is not announced is found every 5 min
	}
	judgeUntil(all, base, 90*time.Second, time.Second)
	took := time.Since(began)
	time.Sleep(3 * time.Second) // nothing untrue follows
	judged, wrong := judge(all, base)
	if len(wrong) > 0 {
		judged.lost += len(wrong)
		report.note("the last events of %v are not true", wrong)
		all[0].explain(all, wrong[0])
	}
	judged.rounds, judged.slowest = r.rounds, took
	report.row("nodes and trackers killed, stopped, cut off", "3 nodes, 3 trackers", judged)
	report.note("%d changes", all[0].oracle.serial.Load())
	for _, s := range all {
		if !s.end(syscall.SIGTERM) {
			report.row("exit", "cluster", result{rounds: 1, hung: 1})
		}
	}
	left := 0
	time.Sleep(time.Second)
	for _, st := range all[0].fixtures {
		left += st.leftover()
		st.close()
	}
	report.row("exit", "cluster", result{rounds: 1, leaked: left})
	return nil
}

// shared waits until every server is ready on the cluster and its contents are known.
func (s *suite) shared(all []*suite, within time.Duration) error {
	for end := time.Now().Add(within); ; time.Sleep(200 * time.Millisecond) {
		ready := 0
		for _, st := range s.fixtures {
			if s.state(st.id) == "Ready" {
				ready++
			}
		}
		known := 0
		for _, st := range s.fixtures {
			for _, at := range all {
				if versions, err := at.contents(st.id, s.oracle); err == nil && len(versions) == resources+1 {
					known++
					break
				}
			}
		}
		if ready == len(s.fixtures) && known == ready {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("only %d of %d servers are ready, and %d known", ready, len(s.fixtures), known)
		}
	}
}

// natsRestarts kills the only node; its trackers must follow the servers again within 20 s. Then it
// cuts off a tracker until the other one has taken over its servers: the pending events of the first
// one must not follow the stored events of the other one.
func natsRestarts(o options, report *report, name string) error {
	o.dir = filepath.Join(o.dir, "nats")
	nodes, err := newCluster(o.nats, o.dir, 1, 2)
	if err != nil {
		return err
	}
	defer nodes[0].kill()
	all, err := clusterSuite(o, report, nodes, 2)
	if err != nil {
		return err
	}
	if err := all[0].shared(all, time.Minute); err != nil {
		return err
	}
	base := newView(all[0].oracle)
	time.Sleep(4 * time.Second) // first looks are stored every 2 s
	// heard swaps, and waits until the log says everything; the next change undoes it.
	heard := func(r *result) {
		all[0].each(func(st *fixture) { st.swap(true) })
		if _, wrong := judgeUntil(all, base, time.Minute, 200*time.Millisecond); len(wrong) > 0 {
			r.hung++
			report.note("not in the log within a minute: %v", wrong)
		}
		all[0].each(func(st *fixture) { st.due.Store(true) })
	}
	r := result{rounds: 1}
	heard(&r)
	nodes[0].kill()
	all[0].each(func(st *fixture) { st.change(true) })
	time.Sleep(10 * time.Second) // the leases are over
	if err := nodes[0].start(); err != nil {
		return err
	}
	began := time.Now()
	if err := all[0].shared(all, 20*time.Second); err != nil {
		r.hung++
		report.note("after a restart of NATS: %v", err)
	}
	r.slowest = time.Since(began)
	check := func(name string, r result) {
		all[0].each(func(st *fixture) { st.set(st.uri(6), true) })
		judgeUntil(all, base, time.Minute, 500*time.Millisecond)
		time.Sleep(3 * time.Second) // nothing untrue follows
		judged, wrong := judge(all, base)
		if len(wrong) > 0 {
			report.note("%s: the last events of %v are not true", name, wrong)
			all[0].explain(all, wrong[0])
		}
		judged.lost += len(wrong)
		r.add(judged)
		report.row(name, "2 trackers", r)
	}
	check(name, r)

	r = result{rounds: 1}
	heard(&r)
	nodes[0].clients[1].cutOff()
	for range 12 {
		all[1].each(func(st *fixture) { st.change(true) })
		time.Sleep(time.Second)
	}
	nodes[0].clients[1].mend()
	check("stale events after a takeover", r)
	for _, s := range all {
		s.end(syscall.SIGTERM)
	}
	for _, st := range all[0].fixtures {
		st.close()
	}
	return nil
}

// nats is one NATS node: a process of nats-server, and the proxies to it.
type nats struct {
	program, name, dir string
	port, route        string   // ports of clients and of routes
	routes             []*proxy // to the others
	clients            []*proxy // one for each tracker
	cmd                *exec.Cmd
}

// configure writes the config: what is stored is synced before it is acknowledged, and
// clients and other nodes learn no address that bypasses the proxies.
func (n *nats) configure() error {
	conf := map[string]any{
		"server_name": n.name,
		"listen":      "127.0.0.1:" + n.port,
		"jetstream":   map[string]any{"store_dir": n.dir, "max_file_store": int64(1 << 40), "max_memory_store": 1 << 30, "sync_interval": "always"},
	}
	if len(n.routes) > 0 {
		var routes []string
		for _, w := range n.routes {
			routes = append(routes, "nats://"+w.addr)
		}
		conf["cluster"] = map[string]any{"name": "c", "listen": "127.0.0.1:" + n.route, "no_advertise": true, "routes": routes}
	}
	data, err := json.Marshal(conf) // which the format of nats-server contains
	if err != nil {
		return err
	}
	return os.WriteFile(n.dir+".conf", data, 0o600)
}

// start starts the node, which writes its log beside its folder, and waits until it listens.
func (n *nats) start() error {
	n.cmd = exec.Command(n.program, "-c", n.dir+".conf", "-l", n.dir+".log")
	n.cmd.Stderr, n.cmd.SysProcAttr = os.Stderr, endsWithThis()
	if err := n.cmd.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", "127.0.0.1:"+n.port)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s does not listen within 20 s: %w", n.program, err)
		}
	}
}

func (n *nats) kill() {
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
}

// newCluster starts nodes that reach each other through proxies, and makes proxies for so many
// trackers. The folder dir exists or is made.
func newCluster(program, dir string, size, trackers int) ([]*nats, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var nodes []*nats
	for i := range size {
		n := &nats{program: program, name: fmt.Sprint("n", i), dir: filepath.Join(dir, fmt.Sprint("n", i))}
		_, n.port, _ = net.SplitHostPort(freeAddr())
		_, n.route, _ = net.SplitHostPort(freeAddr())
		nodes = append(nodes, n)
	}
	for i, n := range nodes {
		for j, other := range nodes {
			if i == j {
				continue
			}
			w, err := newProxy("127.0.0.1:" + other.route)
			if err != nil {
				return nil, err
			}
			n.routes = append(n.routes, w)
		}
		for range trackers {
			w, err := newProxy("127.0.0.1:" + n.port)
			if err != nil {
				return nil, err
			}
			n.clients = append(n.clients, w)
		}
		if err := n.configure(); err != nil {
			return nil, err
		}
		if err := n.start(); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}
