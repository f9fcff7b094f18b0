//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// database is the file of the log in a data directory; SQLite has "-wal" and "-shm" beside it.
func database(dir string) string { return filepath.Join(dir, "events.db") }

// harm damages a file of the log.
type harm struct {
	name, suffix string // the suffix of the file's name
	do           func(path string) error
	mute         bool // nothing shows the tracker that there was a log
}

func harms() []harm {
	return []harm{{"bits flipped", "", flipBits, false}, {"cut", "", cut, false}, {"deleted", "", os.Remove, true}, {"garbage", "", garbage, false}}
}

// damages are the rows that damage files of the log while the tracker runs, after it stopped, and
// after it was killed. No id may name two events, the tracker must report lost
// events, clients must receive a gap, and later events must be true.
func damages() (rows []restart) {
	for _, h := range harms() {
		rows = append(rows, restart{"events.db " + h.name + ", stopped", func(s *suite) error { return s.damaged(h, syscall.SIGTERM) }, true})
	}
	for _, h := range append(harms(), harm{"deleted", "-shm", os.Remove, false}, harm{"garbage", "-shm", garbage, false}, harm{"bits flipped", "-wal", flipBits, false}, harm{"cut", "-wal", cut, false}) {
		rows = append(rows, restart{"events.db" + h.suffix + " " + h.name + ", killed", func(s *suite) error { return s.damaged(h, syscall.SIGKILL) }, true})
	}
	for _, h := range append(harms(), harm{"bits flipped", "-wal", flipBits, false}, harm{"deleted", "-wal", os.Remove, false}) {
		h.mute = false
		rows = append(rows, restart{"events.db" + h.suffix + " " + h.name + ", running", func(s *suite) error { return s.damaged(h, 0) }, true})
	}
	return append(rows,
		restart{"older events.db moved into place, stopped", func(s *suite) error { return s.restored(syscall.SIGTERM, replaceFile) }, true},
		restart{"older events.db moved into place, running", func(s *suite) error { return s.restored(0, replaceFile) }, true},
		restart{"older events.db written over, stopped", func(s *suite) error { return s.restored(syscall.SIGTERM, writeOver) }, true},
		restart{"older events.db written over, killed", func(s *suite) error { return s.restored(syscall.SIGKILL, writeOver) }, true},
	)
}

// damaged ends the tracker with a signal (0: it keeps running), damages its log, restarts it, and
// changes all resources.
func (s *suite) damaged(h harm, sig syscall.Signal) error {
	s.each(func(st *fixture) { st.change(true) })
	time.Sleep(500 * time.Millisecond)
	return s.around(sig, h.mute, func() error {
		return h.do(database(s.data()) + h.suffix)
	})
}

// restored copies the log, causes more events, and puts the copy back.
func (s *suite) restored(sig syscall.Signal, put func(path string, copied []byte) error) error {
	s.ended(syscall.SIGTERM) // so that the file has everything
	older, err := os.ReadFile(database(s.data()))
	if err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	for range 3 {
		s.each(func(st *fixture) { st.change(true) })
		time.Sleep(700 * time.Millisecond)
	}
	return s.around(sig, false, func() error {
		if sig != 0 { // SQLite would apply what is in it to the older file
			for _, suffix := range []string{"-wal", "-shm"} {
				if err := os.Remove(database(s.data()) + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
		return put(database(s.data()), older)
	})
}

// around ends the tracker, calls f and starts it again; with signal 0, f is called while the
// tracker runs, which is started again afterwards: what it has in memory may hide damage. All
// resources change before that. around counts ids that name another event than before, and
// events that are lost although the tracker does not say so.
func (s *suite) around(sig syscall.Signal, mute bool, f func() error) error {
	s.heard()
	before, err := s.all()
	if err != nil {
		return err
	}
	printed := len(s.stderr())
	switch sig {
	case 0:
	case syscall.SIGKILL:
		s.each(func(st *fixture) { st.set(st.uri(0), true) })
		time.Sleep(100 * time.Millisecond)
		s.end(sig)
	default:
		s.ended(sig)
	}
	if err := f(); err != nil {
		return err
	}
	if sig != 0 {
		s.each(func(st *fixture) { st.change(false) })
		if err := s.start(); err != nil {
			return err
		}
	}
	s.each(func(st *fixture) {
		st.change(true)
		for i := range resources {
			st.set(st.uri(i), true)
		}
	})
	s.settle(30*time.Second, sig == 0)
	if sig == 0 {
		if s.ended(syscall.SIGTERM); s.start() != nil {
			return fmt.Errorf("not started again: %s", s.stderr()[printed:])
		}
		s.settle(30*time.Second, false)
	}
	after, err := s.all()
	if err != nil {
		return err
	}
	now := map[uint64]string{} // by number
	for id, line := range after {
		if was := before[id]; was != "" && was != line {
			if s.result.duplicated++; s.result.duplicated == 1 {
				s.report.note("%s is %.200s and was %.200s", id, line, was)
			}
		}
		_, n := cutID(id)
		now[n] = line
	}
	lost := 0
	for id, line := range before {
		if _, n := cutID(id); now[n] != line {
			lost++
		}
	}
	if says := s.stderr()[printed:]; lost > 0 && !mute && !lossSaid.MatchString(says) {
		s.result.lost += lost
		s.report.note("%d events are lost, and it reports only: %.500s", lost, says)
	}
	return nil
}

// lossSaid matches messages about lost events on stderr.
var lossSaid = regexp.MustCompile(`damaged|deleted|replaced|shorter|restored|missing`)

// all returns the whole log as it is served, each event as its line without the id, by id.
func (s *suite) all() (map[string]string, error) {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		lines, events, err := s.log()
		if err == nil {
			all := map[string]string{}
			for i, e := range events {
				if e.Type != "gap" {
					all[e.ID] = withoutID(lines[i])
				}
			}
			return all, nil
		}
		// A reader may be the first to find damage: its stream ends then.
		if time.Now().After(end) {
			return nil, err
		}
	}
}

// withoutID returns the line of an event without its first member, the id.
func withoutID(line string) string {
	_, rest, _ := strings.Cut(line, ",")
	return rest
}

// stderr returns the standard error of all runs of the tracker.
func (t *tracker) stderr() string {
	b, _ := os.ReadFile(filepath.Join(t.dir, "log")) // made by start
	return string(b)
}

// inPlace changes the bytes of a file, which keeps its identity.
func inPlace(path string, change func([]byte) []byte) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(b) == 0 {
		return fmt.Errorf("%s is empty", path)
	}
	return writeOver(path, change(b))
}

func writeOver(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	return errors.Join(err, f.Truncate(int64(len(b))), f.Close())
}

func replaceFile(path string, b []byte) error {
	return errors.Join(os.WriteFile(path+".copy", b, 0o600), os.Rename(path+".copy", path))
}

func flipBits(path string) error {
	return inPlace(path, func(b []byte) []byte {
		for range 8 {
			b[rand.IntN(len(b))] ^= byte(1 << rand.IntN(8))
		}
		return b
	})
}

func cut(path string) error { return inPlace(path, func(b []byte) []byte { return b[:len(b)*4/5] }) }

func garbage(path string) error {
	return inPlace(path, func(b []byte) []byte { return bytes.Repeat([]byte("garbage."), len(b)/8) })
}

// flipsRow starts the tracker on so many damaged logs: one of a tracker that was stopped and one
// of a tracker that was killed, with one byte of events.db changed or its end cut off, in the
// same file or in a copy of the directory. replay reads it first. The tracker has to start; what
// it serves has to be what the undamaged log has, with a gap or a new epoch in place of the rest;
// and if events are lost it has to say so on stderr.
func flipsRow(rounds int) func(options, *report, string) error {
	return func(o options, report *report, name string) error {
		dir, err := os.MkdirTemp(o.dir, "flips-")
		if err != nil {
			return err
		}
		var images []*image
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			im, err := newImage(o, filepath.Join(dir, sig.String()), sig)
			if err != nil {
				return err
			}
			report.note("%s: a log of %d events in %d KiB, after %v", name, len(im.lines), len(im.files["events.db"])>>10, sig)
			images = append(images, im)
		}
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		f := &flips{report: report, name: name}
		for i := range rounds {
			if err := f.round(images[i%2], random, i/2%2 == 0); err != nil {
				return fmt.Errorf("seed %d, round %d: %w", seed, i, err)
			}
		}
		report.note("%s: seed %d, %d damages: %d cost nothing, %d cost %d events together; %d new logs (not counting copies); replay read %d, and refused %d with a reason; slowest start %v",
			name, seed, rounds, f.whole, f.costly, f.cost, f.epochs, f.read, f.refused, f.slowest.Round(time.Millisecond))
		return nil
	}
}

// image is a data directory and what its log has.
type image struct {
	*tracker
	files map[string][]byte // by name
	info  os.FileInfo       // of events.db, which keeps its identity
	epoch string
	lines map[uint64]string // the events without ids, by number
	last  uint64
}

// newImage fills a log in a few seconds and ends its tracker with a signal.
func newImage(o options, dir string, sig syscall.Signal) (*image, error) {
	im := &image{lines: map[uint64]string{}, files: map[string][]byte{},
		tracker: &tracker{bin: o.bin, dir: dir, addr: freeAddr(), args: []string{"--data-dir", filepath.Join(dir, "data")}}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for i := range 5 {
		st, err := newFixture(way{"http", "modern"}, fmt.Sprint("server-", i), "", newOracle())
		if err != nil {
			return nil, err
		}
		defer st.close()
		im.fixtures = append(im.fixtures, st)
	}
	if err := errors.Join(im.configure(), im.start()); err != nil {
		return nil, err
	}
	defer im.end(syscall.SIGKILL)
	time.Sleep(time.Second)
	for part := range 60 {
		if part == 30 { // so that a killed one has events in events.db and in the WAL
			if im.end(syscall.SIGTERM); im.start() != nil {
				return nil, fmt.Errorf("it does not start again: %s", im.stderr())
			}
		}
		for _, st := range im.fixtures {
			for i := range 10 * resources {
				st.set(st.uri(i), true)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	im.end(sig)
	entries, err := os.ReadDir(im.data())
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if im.files[e.Name()], err = os.ReadFile(filepath.Join(im.data(), e.Name())); err != nil {
			return nil, err
		}
	}
	if im.info, err = os.Stat(database(im.data())); err != nil {
		return nil, err
	}
	// The config has no servers from here on, so that nothing is added to the log.
	im.fixtures = nil
	if err := im.configure(); err != nil {
		return nil, err
	}
	whole := filepath.Join(dir, "whole")
	if err := im.write(whole, im.files["events.db"]); err != nil {
		return nil, err
	}
	out, errs, exit := im.output("replay", "--data-dir", whole)
	if exit != 0 {
		return nil, fmt.Errorf("replay of the undamaged log ended with %d: %s", exit, errs)
	}
	for line := range strings.Lines(out) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, err
		}
		im.epoch, im.last = cutID(e.ID)
		im.lines[im.last] = withoutID(strings.TrimSuffix(line, "\n"))
	}
	if uint64(len(im.lines)) != im.last || im.last < 500 {
		return nil, fmt.Errorf("the undamaged log has %d events up to %d", len(im.lines), im.last)
	}
	return im, nil
}

// write makes a directory with the image's files, of which events.db is another one.
func (im *image) write(dir string, db []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, b := range im.files {
		if name == "events.db" {
			b = db
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// restore brings the image's own file back to its place, with these bytes.
func (im *image) restore(db []byte) error {
	entries, err := os.ReadDir(im.data())
	if err != nil {
		return err
	}
	found := ""
	for _, e := range entries {
		path := filepath.Join(im.data(), e.Name())
		if info, err := os.Stat(path); err == nil && os.SameFile(info, im.info) {
			found = path
		} else if err := os.Remove(path); err != nil {
			return err
		}
	}
	if err := os.Rename(found, database(im.data())); err != nil {
		return err
	}
	return im.write(im.data(), db)
}

// loaded waits until the tracker has as many events of its log in memory, or no more come: the
// last number in /api/status counts only events in memory.
func (t *tracker) loaded(last uint64) {
	var status struct{ Seq uint64 }
	for was, since := uint64(0), time.Now(); time.Since(since) < 300*time.Millisecond; time.Sleep(10 * time.Millisecond) {
		if err := t.get("/api/status", &status); err == nil && status.Seq >= last {
			return
		}
		if status.Seq != was {
			was, since = status.Seq, time.Now()
		}
	}
}

// flips counts the outcomes of the rounds.
type flips struct {
	report                                     *report
	name                                       string
	whole, costly, cost, epochs, read, refused int
	slowest                                    time.Duration
}

// round damages the log of an image once, and starts the tracker on it.
func (f *flips) round(im *image, random *rand.Rand, inPlace bool) error {
	db := append([]byte(nil), im.files["events.db"]...)
	at := random.IntN(len(db))
	what := fmt.Sprint("byte ", at, " changed")
	if random.IntN(4) > 0 {
		db[at] ^= byte(1 + random.IntN(255))
	} else {
		what = fmt.Sprint("cut at ", at)
		db = db[:at]
	}
	dir := im.data()
	if inPlace {
		if err := im.restore(db); err != nil {
			return err
		}
	} else {
		dir = filepath.Join(im.dir, "copy")
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := im.write(dir, db); err != nil {
			return err
		}
		what += ", in a copy"
	}
	r := result{rounds: 1}
	note := func(format string, args ...any) {
		f.report.note("%s, %s: %s", filepath.Base(im.dir), what, fmt.Sprintf(format, args...))
	}
	f.replay(im, dir, &r, note)
	t := &tracker{bin: im.bin, dir: im.dir, addr: im.addr, args: []string{"--data-dir", dir}}
	printed, began := len(t.stderr()), time.Now()
	if err := t.start(); err != nil {
		r.hung++
		note("it does not start: %v: %s", err, t.stderr()[printed:])
		f.report.row(f.name, filepath.Base(im.dir), r)
		return nil
	}
	r.slowest = time.Since(began)
	f.slowest = max(f.slowest, r.slowest)
	c := &check{image: im, note: note, result: &r}
	t.loaded(im.last)
	err := c.serve(t)
	for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); err = c.serve(t) {
		time.Sleep(100 * time.Millisecond) // what was damaged is moved away when somebody reads it
	}
	if err != nil {
		r.hung++
		note("the log cannot be read: %v", err)
	}
	if !t.end(syscall.SIGTERM) {
		r.hung++
		note("it does not end")
	}
	c.judge(true)
	lost, says := len(im.lines)-len(c.there), t.stderr()[printed:]
	if lost > 0 && !lossSaid.MatchString(says) {
		r.lost += lost
		note("%d events are lost, and it reports only: %.500s", lost, says)
	}
	if f.cost += lost; lost > 0 {
		f.costly++
	} else {
		f.whole++
	}
	if inPlace && c.epoch != im.epoch {
		f.epochs++
	}
	f.report.row(f.name, filepath.Base(im.dir), r)
	return nil
}

// replay reads the damaged log without the tracker. It may fail if it gives a reason.
func (f *flips) replay(im *image, dir string, r *result, note func(string, ...any)) {
	out, errs, exit := im.output("replay", "--data-dir", dir)
	c := &check{image: im, note: note, result: r}
	var e event
	for line := range strings.Lines(out) {
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			r.stale++
			note("replay prints what is not an event: %.200s", line)
			continue
		}
		c.take(e, strings.TrimSuffix(line, "\n"))
	}
	switch {
	case exit == 0:
		f.read++
		c.judge(errs != "")
	case exit == 1 && strings.HasPrefix(errs, "mcptrack: "):
		f.refused++
	default:
		r.hung++
		note("replay ended with %d: %s", exit, errs)
	}
}

// check compares what is read of a damaged log with the image.
type check struct {
	*image
	result *result
	note   func(format string, args ...any)
	epoch  string // of the last event
	there  map[uint64]bool
	gaps   map[uint64]bool // numbers that gaps cover
	fresh  bool            // a gap has announced a new log
}

// serve reads what the tracker serves to a client that has seen nothing of the image's log.
func (c *check) serve(t *tracker) error {
	c.there, c.gaps = nil, nil
	lines, events, err := t.logAfter(c.image.epoch + "-0")
	for i, e := range events {
		c.take(e, lines[i])
	}
	return err
}

// take takes in an event that was read.
func (c *check) take(e event, line string) {
	if c.there == nil {
		c.there, c.gaps = map[uint64]bool{}, map[uint64]bool{}
	}
	epoch, seq := cutID(e.ID)
	if c.epoch = epoch; e.Type == "gap" {
		from, before := cutID(e.From)
		c.fresh = c.fresh || e.Reason == "epoch"
		if from == epoch && seq > c.last {
			c.result.stale++
			c.note("a gap after %s up to %s, although %d is the last number", e.From, e.ID, c.last)
		}
		for n := before + 1; from == epoch && n <= min(seq, c.last); n++ {
			c.gaps[n] = true
		}
		return
	}
	was := c.lines[seq]
	switch {
	case was == "":
		c.result.stale++
		c.note("%s was never written: %.300s", e.ID, line)
	case was != withoutID(line):
		c.result.stale++
		c.note("%s is %.300s and was %.300s", e.ID, line, was)
	case c.there[seq]:
		c.result.duplicated++
		c.note("%s comes twice", e.ID)
	}
	c.there[seq] = true
}

// judge counts events that are neither present nor in a gap. At the end of a new log that was
// reported, events may be missing without a gap.
func (c *check) judge(reported bool) {
	newest := c.last
	if (c.fresh || c.epoch == "" || c.epoch != c.image.epoch) && reported {
		newest = 0
		for n := range c.there {
			newest = max(newest, n)
		}
	}
	first := uint64(0)
	for n := uint64(1); n <= newest; n++ {
		if !c.there[n] && !c.gaps[n] {
			if c.result.lost++; first == 0 {
				first = n
			}
		}
	}
	if first > 0 {
		c.note("events from number %d on are missing without a gap (%d there, %d in gaps, of %d; epoch kept: %v)", first, len(c.there), len(c.gaps), c.last, c.epoch == c.image.epoch)
	}
}
