// Mutants checks that tests of the promises detect defects. It plants one defect at a
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
	keyFile     = "core/tracker/internal/coalesce/key.go"
	readFile    = "core/tracker/internal/coalesce/read.go"
	syncFile    = "core/tracker/sync.go"
	trackerFile = "core/tracker/tracker.go"
	signalsFile = "core/session/signals.go"
	feedFile    = "output/feed/client.go"
	relayFile   = "core/daemon/relay/relay.go"
)

// patch replaces the only occurrence of old in a file.
type patch struct{ file, old, new string }

// mutant is one defect. It is caught if one of the suites fails; they run in this order.
type mutant struct {
	name    string
	defect  string
	suites  []suite
	patches []patch
}

func mutants() []mutant {
	coalesced := suite{"./core/tracker/internal/coalesce", "^(TestProperties|TestRateAndLatency)$", []string{"-rapid.nofailfile", "-rapid.checks=2000", "-rapid.shrinktime=1s"}}
	promises := suite{"./core/tracker", "^TestPromise", nil}
	truth := []suite{coalesced, promises}
	one := func(pkg, run string) []suite { return []suite{{pkg, run, nil}} }
	return []mutant{
		{"leading-only", "a second change inside a window is never published", truth, []patch{
			{keyFile, "case !k.dirty && !k.noDigest:\n\t\tk.open = false", "case true:\n\t\tk.open, k.dirty = false, false"},
		}},
		{"late-clear", "the dirty bit is cleared after the read", truth, []patch{
			{readFile, "if k.reason.urgent() {\n\t\tk.dirty = false", "if k.reason.urgent() {\n\t\t_ = k.dirty"},
			{readFile, "k.reason = none\n\tswitch outcome {", "k.reason = none\n\tk.dirty = false\n\tswitch outcome {"},
		}},
		{"event-first", "the event is published before the read, and the result of the read counts as published", truth, []patch{
			{keyFile, "c.reads.push(k)\n\tc.timers.set(k, k.patience)", "c.reads.push(k)\n\tk.lead()"},
			{readFile, "k.endIfOver(now) // published", "k.remember(got)\n\t\tk.noDigest = false\n\t\tk.endIfOver(now) // published"},
		}},
		{"stale-read", "a read that began before the signal counts as its read", truth, []patch{
			{readFile, "if k.stale {", "if k.stale = false; k.stale {"},
		}},
		{"cached-read", "a comparison uses the previous content instead of the content it read", truth, []patch{
			{readFile, "case Resync, Poll, Event, Hook:\n", "case Resync, Poll, Event, Hook:\n\t\tgot = k.published\n"},
		}},
		{"read-first", "the tracker lists and reads before it subscribes", []suite{promises}, []patch{
			{syncFile, "if r.job.subscribe {\n", "if r.job.subscribe && false {\n"},
		}},
		{"unread-reconnect", "the tracker does not compare resources after it connected again", []suite{promises}, []patch{
			{syncFile, "if r.job.compare {\n\t\tf.w.co.CompareAll()", "if r.job.compare && r.job.first != nil && f.w.retries.attempt < 0 {\n\t\tf.w.co.CompareAll()"},
		}},
		{"left-running", "a server that was removed from the config is not stopped", one("./core/tracker", "^TestApplyTouchesOnlyWhatDiffers$"), []patch{
			{trackerFile, "if srv, ok := desired[id]; !ok {\n\t\t\t\tw.remove()", "if srv, ok := desired[id]; !ok {\n\t\t\t\tcontinue"},
		}},
		{"dropped-notification", "an update of a resource does not wake the owner of a session", []suite{promises}, []patch{
			{signalsFile, "if ok {\n\t\tg.ring()", "if ok && len(kinds) > 0 {\n\t\tg.ring()"},
		}},
		{"forgotten-signal", "an update of a resource replaces those of others that were not taken yet", one("./core/session", "^(TestSubscribeAndSignals|TestSubResources|TestOverflowIsAGap)$"), []patch{
			{signalsFile, "if g.uris == nil {\n\t\t\tg.uris = make(map[string]Signal)\n\t\t}", "g.uris = make(map[string]Signal)"},
		}},
		{"lost-at-close", "the last event that waits when a log is closed is not stored", one("./core/journal/sqlitelog", "^TestLogKeepsTheContract$/^CloseStores$"), []patch{
			{"core/journal/internal/storing/queue.go", "func (q *Queue[N]) Close() {\n\tq.mu.Lock()\n", "func (q *Queue[N]) Close() {\n\tq.mu.Lock()\n\tq.items = q.items[:max(len(q.items)-1, 0)]\n"},
		}},
		{"resume-without-gap", "a reader is not told that events are gone that it has not seen", one("./core/journal", "^TestMemoryKeepsTheContract$/^Retention$"), []patch{
			{"core/journal/entry.go", "case seq+1 < b.First:\n\t\treturn gap(ReasonRetention)", "case seq+1 < b.First:\n\t\treturn r"},
		}},
		{"event-twice", "the first event after the history is sent twice", one("./output/feed", "^TestResumedEventsAreNeitherLostNorRepeated$"), []patch{
			{feedFile, "case v.n > 0:\n\t\t\tc.live = true", "case v.n > 0:\n\t\t\tif !c.live {\n\t\t\t\t_ = c.forward(frames[:1])\n\t\t\t}\n\t\t\tc.live = true"},
		}},
		{"forgotten-unsubscribe", "a client that unsubscribed from a resource is still told of its changes", one("./core/internal/subscriptions", "^TestModel$"), []patch{
			{"core/internal/subscriptions/subscriptions.go", "delete(of, s)\n\tif len(of) == 0 {", "if len(of) == 0 {"},
		}},
		{"held-tool", "a tool whose change is not approved may be called", one("./core/lock/guard", "^TestVerdict$"), []patch{
			{"core/lock/guard/verdict.go", "if _, is := v.held[id{lock.Section(k), key}]; is {", "if h, is := v.held[id{lock.Section(k), key}]; is && h.approved == nil {"},
		}},
		{"call-twice", "a call without an answer is sent again to the next daemon", one("./core/daemon/relay", "^(TestAnotherDaemonContinuesALegacySession|TestARequestOfALostDaemonIsCancelled)$"), []patch{
			{relayFile, "case \"resources/subscribe\":\n", "case \"resources/subscribe\", \"tools/call\":\n"},
		}},
		{"forged-hook", "the signature of a hook is not compared", one("./core/hook", "^TestRefused$"), []patch{
			{"core/hook/scheme.go", "ok = hmac.Equal(got, sum) || ok", "ok = len(got) == len(sum) || ok"},
		}},
	}
}

// suite is a set of tests of one package that pass without a defect and need nothing but Go.
type suite struct {
	pkg, run string
	args     []string
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
	selected := slices.DeleteFunc(mutants(), func(m mutant) bool { return len(names) > 0 && !slices.Contains(names, m.name) })
	passed := map[string]bool{}
	for _, m := range selected {
		for _, s := range m.suites {
			if passed[s.pkg+s.run] {
				continue
			}
			if out, err := s.test(""); err != nil || !bytes.HasPrefix(out, []byte("ok")) || bytes.Contains(out, []byte("no tests to run")) {
				return fmt.Errorf("the tests fail without a defect:\n%s", out)
			}
			passed[s.pkg+s.run] = true
		}
	}
	var failed []error
	for _, m := range selected {
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
	for _, s := range m.suites {
		out, err := s.test(overlay)
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

// test runs the suite, with an overlay unless it is "".
func (s suite) test(overlay string) ([]byte, error) {
	args := []string{"test", "-short", "-vet=off", "-count=1", "-timeout=3m", "-skip=^TestReal", "-run", s.run}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	return exec.Command("go", append(append(args, s.pkg), s.args...)...).CombinedOutput()
}
