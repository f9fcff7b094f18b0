// Mutants checks that the tests of the tracker's promises detect defects. It plants one defect at a
// time in a copy of the source, which replaces the original by go test -overlay, and expects tests
// to fail. It fails if a patch does not apply, a mutant does not compile, or a mutant survives.
//
// usage: go run ./scripts/mutants [NAME...]     (in the root of the repository)
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	keyFile  = "core/tracker/internal/coalesce/key.go"
	readFile = "core/tracker/internal/coalesce/read.go"
	syncFile = "core/tracker/sync.go"
)

// patch replaces the only occurrence of old in a file.
type patch struct{ file, old, new string }

// mutant is one defect.
type mutant struct {
	name    string
	defect  string
	patches []patch
}

func mutants() []mutant {
	return []mutant{
		{"leading-only", "a second change inside a window is never published", []patch{
			{keyFile, "case !k.dirty && !k.noDigest:\n\t\tk.open = false", "case true:\n\t\tk.open, k.dirty = false, false"},
		}},
		{"late-clear", "the dirty bit is cleared after the read", []patch{
			{readFile, "if k.reason.urgent() {\n\t\tk.dirty = false", "if k.reason.urgent() {\n\t\t_ = k.dirty"},
			{readFile, "k.reason = none\n\tswitch outcome {", "k.reason = none\n\tk.dirty = false\n\tswitch outcome {"},
		}},
		{"event-first", "the event is published before the read, and the result of the read counts as published", []patch{
			{keyFile, "c.reads.push(k)\n\tc.timers.set(k, k.patience)", "c.reads.push(k)\n\tk.lead()"},
			{readFile, "k.endIfOver(now) // published", "k.remember(got)\n\t\tk.noDigest = false\n\t\tk.endIfOver(now) // published"},
		}},
		{"stale-read", "a read that began before the signal counts as its read", []patch{
			{readFile, "if k.stale {", "if k.stale = false; k.stale {"},
		}},
		{"cached-read", "a comparison uses the previous content instead of the content it read", []patch{
			{readFile, "case Resync, Poll, Event, Hook:\n", "case Resync, Poll, Event, Hook:\n\t\tgot = k.published\n"},
		}},
		{"read-first", "the tracker lists and reads before it subscribes", []patch{
			{syncFile, "if r.job.subscribe {\n", "if r.job.subscribe && false {\n"},
		}},
	}
}

// suite is a set of tests that must pass without a defect. A mutant is caught if one of the suites
// fails; they run in this order.
type suite struct{ args []string }

func suites() []suite {
	return []suite{
		{[]string{"-run", "^(TestProperties|TestRateAndLatency)$", "./core/tracker/internal/coalesce", "-rapid.nofailfile", "-rapid.checks=2000", "-rapid.shrinktime=1s"}},
		{[]string{"-run", "^TestPromise", "./core/tracker"}},
	}
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(names []string) error {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, s := range suites() {
		if out, err := s.run(""); err != nil {
			return fmt.Errorf("the tests fail without a defect:\n%s", out)
		}
	}
	var failed []error
	for _, m := range mutants() {
		if len(names) > 0 && !slices.Contains(names, m.name) {
			continue
		}
		began := time.Now()
		if err := m.caught(filepath.Join(dir, m.name)); err != nil {
			failed = append(failed, fmt.Errorf("%s (%s): %w", m.name, m.defect, err))
			continue
		}
		fmt.Printf("caught %s in %.1f s\n", m.name, time.Since(began).Seconds())
	}
	return errors.Join(failed...)
}

// caught returns nil if a suite fails with the mutant.
func (m mutant) caught(dir string) error {
	overlay, err := m.overlay(dir)
	if err != nil {
		return err
	}
	for _, s := range suites() {
		out, err := s.run(overlay)
		switch {
		case err != nil && bytes.Contains(out, []byte("--- FAIL")):
			return nil
		case err != nil:
			return fmt.Errorf("the tests did not run:\n%s", out)
		}
	}
	return errors.New("it survived: no test failed")
}

// overlay writes the patched copies and returns the file for go test -overlay.
func (m mutant) overlay(dir string) (string, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	replaced := map[string]string{}
	for i, p := range m.patches {
		original, err := filepath.Abs(p.file)
		if err != nil {
			return "", err
		}
		from := original
		if before, ok := replaced[original]; ok {
			from = before
		}
		source, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if n := strings.Count(string(source), p.old); n != 1 {
			return "", fmt.Errorf("patch %d does not apply: %q is in %s %d times", i+1, p.old, p.file, n)
		}
		to := filepath.Join(dir, fmt.Sprintf("%d-%s", i, filepath.Base(p.file)))
		if err := os.WriteFile(to, []byte(strings.Replace(string(source), p.old, p.new, 1)), 0o600); err != nil {
			return "", err
		}
		replaced[original] = to
	}
	encoded, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, encoded, 0o600)
}

// run runs the suite, with an overlay unless it is "".
func (s suite) run(overlay string) ([]byte, error) {
	args := []string{"test", "-vet=off", "-count=1"}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	return exec.Command("go", append(args, s.args...)...).CombinedOutput()
}
