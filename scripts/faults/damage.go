//go:build linux

package main

import (
	"bytes"
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

// harm is what happens to a file of the log.
type harm struct {
	name, suffix string // the suffix of the file's name
	do           func(path string) error
	mute         bool // nothing is left by which the tracker could know that there was a log
}

func harms() []harm {
	return []harm{{"bits flipped", "", flipBits, false}, {"cut", "", cut, false}, {"deleted", "", os.Remove, true}, {"garbage", "", garbage, false}}
}

// damages are the rows in which files of the log are damaged while the tracker runs, after it has
// stopped, and after it was killed. No id may then name two events, the tracker has to say that
// events are lost, clients have to be told, and what they are sent afterwards has to be true.
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

func (s *suite) data() string { return filepath.Join(s.dir, "data") }

// damaged ends the tracker with a signal (0: it stays), damages its log, starts it again, and
// changes all resources.
func (s *suite) damaged(h harm, sig syscall.Signal) error {
	s.each(func(st *stand) { st.change(true) })
	time.Sleep(500 * time.Millisecond)
	return s.around(sig, h.mute, func() error {
		return h.do(database(s.data()) + h.suffix)
	})
}

// restored copies the log, lets more events happen, and brings the copy back.
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
		s.each(func(st *stand) { st.change(true) })
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
	said := len(s.said())
	switch sig {
	case 0:
	case syscall.SIGKILL:
		s.each(func(st *stand) { st.set(st.uri(0), true) })
		time.Sleep(100 * time.Millisecond)
		s.end(sig)
	default:
		s.ended(sig)
	}
	if err := f(); err != nil {
		return err
	}
	if sig != 0 {
		s.each(func(st *stand) { st.change(false) })
		if err := s.start(); err != nil {
			return err
		}
	}
	s.each(func(st *stand) {
		st.change(true)
		for i := range resources {
			st.set(st.uri(i), true)
		}
	})
	s.settle(30*time.Second, sig == 0)
	if sig == 0 {
		if s.ended(syscall.SIGTERM); s.start() != nil {
			return fmt.Errorf("not started again: %s", s.said()[said:])
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
	if says := s.said()[said:]; lost > 0 && !mute && !lossSaid.MatchString(says) {
		s.result.lost += lost
		s.report.note("%d events are lost, and it says only: %.500s", lost, says)
	}
	return nil
}

// lossSaid matches what the tracker writes to stderr about events that are lost.
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

// withoutID returns the line of an event without its id, which is its first member.
func withoutID(line string) string {
	_, rest, _ := strings.Cut(line, ",")
	return rest
}

// said returns what the tracker wrote to stderr in all its lives.
func (t *tracker) said() string {
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
