//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// diskFull: the disk of the log is full for 4 s, in which resources and lists change back; clients
// are told nothing that is not stored, and in the end what is true.
func diskFull(o options, report *report, name string) error {
	o.dir = filepath.Join(o.dir, "disk")
	o.disk = filepath.Join(o.dir, "data")
	if err := os.MkdirAll(o.disk, 0o700); err != nil {
		return err
	}
	return withSuite(o, report, nil, func(s *suite) error {
		s.result = result{rounds: 1}
		before := s.feed.sum()
		s.heard()
		fill := fmt.Sprintf("/proc/%d/root%s/fill", s.pid(), o.disk)
		if err := os.WriteFile(fill, make([]byte, 16<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("the disk is not full: %w", err)
		}
		for range 4 {
			s.each(func(st *stand) { st.change(true) })
			time.Sleep(time.Second)
		}
		if err := os.Remove(fill); err != nil {
			return err
		}
		if says := s.said(); !strings.Contains(says, "disk is full") {
			s.result.hung++
			report.note("%s: it says only: %.500s", name, says)
		}
		s.result.slowest = s.settle(time.Minute, true)
		after := s.feed.sum()
		s.result.stale = after.stale - before.stale
		s.result.duplicated = after.duplicated - before.duplicated + after.reused - before.reused
		s.result.lost += after.holes - before.holes + after.gaps - before.gaps
		if gaps := after.gaps - before.gaps; gaps > 0 {
			report.note("%s: the client was told of %d gaps", name, gaps)
		}
		report.row(name, "all", s.result)
		return nil
	})
}
