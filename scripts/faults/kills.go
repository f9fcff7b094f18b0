//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// killsRow kills the tracker with SIGKILL so many times, at random moments from before it listens
// on, and starts it again on the same data directory and address, while resources change and
// readers resume: eight clients of /events, of which three are slow, and two processes of tail.
// Every reader must receive every number once, in one epoch, with the same event as all other readers,
// and the last event of every resource must be true.
func killsRow(times int) func(options, *report, string) error {
	return func(o options, report *report, name string) error {
		dir, err := os.MkdirTemp(o.dir, "kills-")
		if err != nil {
			return err
		}
		oracle := newOracle()
		t := &tracker{bin: o.bin, dir: dir, addr: freeAddr(), args: []string{"--durability", "always", "--data-dir", filepath.Join(dir, "data")}}
		for _, w := range []way{{"http", "modern"}, {"stdio", "legacy"}} {
			st, err := newFixture(w, w.String(), "", oracle)
			if err != nil {
				return err
			}
			defer st.close()
			t.fixtures = append(t.fixtures, st)
		}
		if err := t.configure(); err != nil {
			return err
		}
		if err := t.start(); err != nil {
			return err
		}
		defer t.end(syscall.SIGKILL)
		time.Sleep(3 * time.Second) // the first looks are stored
		k := &kills{tracker: t, oracle: oracle, report: report, hashes: map[uint64]uint64{}, seed: maphash.MakeSeed(), view: newView(oracle)}
		began := time.Now()
		r, err := k.run(times)
		r.rounds = times
		report.note("%s: %d kills in %v, %s", name, times, time.Since(began).Round(time.Second), k)
		report.row(name, fmt.Sprintf("%d readers", len(k.readers)), r)
		return err
	}
}

// kills is what the readers of a killed tracker received.
type kills struct {
	*tracker
	oracle  *oracle
	report  *report
	readers []*reader
	seed    maphash.Seed

	mu     sync.Mutex        // guards what follows
	hashes map[uint64]uint64 // the hash of the event that each number names
	newest uint64
	view   *view
	stale  int
}

// reader counts what one reader received.
type reader struct {
	name  string
	kills *kills

	mu                                            sync.Mutex // guards what follows
	epoch, lastID                                 string
	last                                          uint64
	events, holes, doubles, differing, gaps, ends int // ends of connections
	epochs                                        int
}

func (k *kills) String() string {
	var sum reader
	for _, r := range k.readers {
		r.mu.Lock()
		sum.events += r.events
		sum.holes += r.holes
		sum.doubles += r.doubles
		sum.differing += r.differing
		sum.gaps += r.gaps
		sum.ends += r.ends
		sum.epochs += r.epochs
		r.mu.Unlock()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return fmt.Sprintf("%d events in the log, %d readers received %d over %d connections of clients: %d holes, %d doubles, %d numbers with another event, %d gaps, %d new epochs, %d stale",
		k.newest, len(k.readers), sum.events, sum.ends, sum.holes, sum.doubles, sum.differing, sum.gaps, sum.epochs, k.stale)
}

// run kills the tracker and judges what the readers have in the end.
func (k *kills) run(times int) (r result, err error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var reading, changing sync.WaitGroup
	defer reading.Wait()
	defer stop()
	for i := range 8 {
		rd := &reader{name: fmt.Sprint("client ", i), kills: k}
		k.readers = append(k.readers, rd)
		reading.Go(func() { rd.follow(ctx, pace(i)) })
	}
	for i := range 2 {
		rd := &reader{name: fmt.Sprint("tail ", i), kills: k}
		k.readers = append(k.readers, rd)
		wait, err := rd.tail(ctx)
		if err != nil {
			return r, err
		}
		reading.Go(func() {
			if err := wait(); err != nil && ctx.Err() == nil {
				k.report.note("%s ended: %v", rd.name, err)
			}
		})
	}
	time.Sleep(time.Second) // the first connection of tail must succeed
	calm, becalm := context.WithCancel(ctx)
	defer becalm()
	for _, st := range k.fixtures {
		changing.Go(func() {
			for calm.Err() == nil {
				st.set(st.uri(rand.IntN(resources)), rand.IntN(5) > 0)
				if rand.IntN(20) == 0 {
					st.swap(rand.IntN(5) > 0)
				}
				time.Sleep(10*time.Millisecond + rand.N(60*time.Millisecond))
			}
		})
	}
	for range times {
		k.end(syscall.SIGKILL)
		_, done, err := k.launch()
		if err != nil {
			return r, err
		}
		moment := rand.N(300 * time.Millisecond) // often before it listens
		if rand.IntN(2) == 0 {
			moment += rand.N(900 * time.Millisecond)
		}
		select {
		case <-done:
			r.hung++
			k.report.note("the tracker exited unexpectedly: see %s", filepath.Join(k.dir, "log"))
		case <-time.After(moment):
		}
	}
	becalm()
	changing.Wait()
	k.end(syscall.SIGKILL)
	if err := k.start(); err != nil {
		return r, err
	}
	for _, st := range k.fixtures {
		for i := range resources {
			st.set(st.uri(i), true)
		}
	}
	settled := time.Now()
	var wrong []at
	var behind []string
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if wrong, behind = k.wrong(), k.behind(); len(wrong)+len(behind) == 0 {
			break
		}
	}
	r.slowest = time.Since(settled)
	time.Sleep(2500 * time.Millisecond) // nothing untrue follows
	if wrong, behind = k.wrong(), k.behind(); len(wrong)+len(behind) > 0 {
		k.report.note("the last events of %v are not true, and %v have not received the last event", wrong, behind)
	}
	stop()
	reading.Wait()
	if !k.end(syscall.SIGTERM) {
		r.hung++
	}
	r.hung += len(behind)
	r.lost += len(wrong)
	r.stale = k.stale
	for _, rd := range k.readers {
		r.lost += rd.holes
		r.duplicated += rd.doubles + rd.differing + rd.epochs
		if rd.holes+rd.doubles+rd.differing+rd.epochs > 0 {
			k.report.note("%s: %d holes, %d doubles, %d numbers with another event, %d new epochs", rd.name, rd.holes, rd.doubles, rd.differing, rd.epochs)
		}
	}
	k.compare(&r)
	return r, nil
}

// compare counts differences between the output of replay and what readers received.
func (k *kills) compare(r *result) {
	out, errs, exit := k.output("replay", "--data-dir", k.data())
	if exit != 0 || errs != "" {
		r.hung++
		k.report.note("replay ended with %d: %s", exit, errs)
	}
	next := uint64(1)
	for line := range strings.Lines(out) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			r.lost++
			continue
		}
		_, seq := cutID(e.ID)
		if seq != next {
			r.lost++
			k.report.note("replay prints %d after %d", seq, next-1)
		}
		if was, sent := k.hashes[seq]; sent && was != maphash.String(k.seed, strings.TrimSuffix(line, "\n")) {
			r.duplicated++
			k.report.note("replay prints another event %s than was sent", e.ID)
		}
		next = seq + 1
	}
	if next <= k.newest {
		r.lost++
		k.report.note("replay ends before %d with %d, which was sent", next, k.newest)
	}
}

// wrong returns whatever the events do not describe truly.
func (k *kills) wrong() []at {
	k.mu.Lock()
	v := k.view.clone()
	k.mu.Unlock()
	return v.wrong("", func(server string) (map[at]int64, error) { return k.contents(server, k.oracle) })
}

// behind names the readers without the newest event.
func (k *kills) behind() (names []string) {
	k.mu.Lock()
	newest := k.newest
	k.mu.Unlock()
	for _, r := range k.readers {
		r.mu.Lock()
		if r.last < newest {
			names = append(names, fmt.Sprintf("%s (%d of %d)", r.name, r.last, newest))
		}
		r.mu.Unlock()
	}
	return names
}

// note takes in an event that some reader was sent. It reports whether the number named the
// same event for everybody before.
func (k *kills) note(e event, seq uint64, line string) bool {
	hash := maphash.String(k.seed, line)
	k.mu.Lock()
	defer k.mu.Unlock()
	if was, seen := k.hashes[seq]; seen {
		return was == hash
	}
	k.hashes[seq] = hash
	if seq <= k.newest {
		return true
	}
	k.newest = seq
	stale, _ := k.view.take(e)
	k.stale += stale
	return true
}

// note takes in an event that the reader was sent.
func (r *reader) note(line string) {
	var e event
	if err := json.Unmarshal([]byte(line), &e); err != nil || e.Type == "checkpoint" {
		return
	}
	epoch, seq := cutID(e.ID)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epoch != "" && r.epoch != epoch {
		r.epochs++
		r.kills.report.note("%s: %s follows %s", r.name, e.ID, r.lastID)
	}
	from := r.last + 1
	if r.epoch, r.lastID = epoch, e.ID; e.Type == "gap" {
		_, before := cutID(e.From)
		if r.gaps++; before >= from {
			r.holes++
		}
		r.last = seq
		return
	}
	switch {
	case seq < from:
		r.doubles++
		return
	case seq > from:
		r.holes++
		r.kills.report.note("%s: %d follows %d", r.name, seq, r.last)
	}
	r.last = seq
	r.events++
	if !r.kills.note(e, seq, line) {
		r.differing++
	}
}

// pace returns what client i does after each event.
func pace(i int) func() {
	switch i {
	case 5: // is slower than bursts
		return func() { time.Sleep(2 * time.Millisecond) }
	case 6: // stops now and then
		return func() {
			if rand.IntN(100) == 0 {
				time.Sleep(rand.N(2 * time.Second))
			}
		}
	case 7: // stops for longer than a write may take
		return func() {
			if rand.IntN(2000) == 0 {
				time.Sleep(7 * time.Second)
			}
		}
	}
	return func() {}
}

// follow reads /events from the first event on, with its last id after every end.
func (r *reader) follow(ctx context.Context, pause func()) {
	dialer := &net.Dialer{}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, addr)
		if err == nil {
			err = c.(*net.TCPConn).SetReadBuffer(8 << 10) // so that the tracker notices who is slow
		}
		return c, err
	}}}
	id := ""
	for ctx.Err() == nil {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, r.kills.url()+"/events?since=earliest", nil)
		if err != nil {
			return
		}
		if id != "" {
			q.Header.Set("Last-Event-ID", id)
		}
		if p, err := client.Do(q); err == nil {
			if p.StatusCode == http.StatusOK {
				id = r.stream(p.Body, id, pause)
			}
			_ = p.Body.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(20*time.Millisecond + rand.N(80*time.Millisecond)):
		}
	}
}

// stream reads an event stream to its end and returns the id after which to resume. An event
// without the empty line after it does not count.
func (r *reader) stream(body io.Reader, last string, pause func()) string {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 8<<20)
	id, data := last, ""
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch value = strings.TrimPrefix(value, " "); {
		case lines.Text() == "" && data != "":
			r.note(data)
			last, data = id, ""
			pause()
		case name == "id":
			id = value
		case name == "data":
			data = value // mcptrack writes one line
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends++
	return last
}

// tail starts a process of tail, which ends with ctx. wait returns when it has.
func (r *reader) tail(ctx context.Context) (wait func() error, err error) {
	log, err := os.Create(filepath.Join(r.kills.dir, strings.ReplaceAll(r.name, " ", "-")+".log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, r.kills.bin, "tail", r.kills.url(), "--since", "1d", "--json")
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return func() error {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 8<<20)
		for lines.Scan() {
			r.note(lines.Text())
		}
		return errors.Join(cmd.Wait(), log.Close())
	}, nil
}
