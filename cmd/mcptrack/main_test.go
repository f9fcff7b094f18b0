package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary also be other programs: called as mcptrack, it is mcptrack.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){
		"mcptrack":       func() { os.Exit(run()) },
		"counted-server": func() { os.Exit(countedServer(os.Args[1:])) },
		"files-server":   func() { os.Exit(filesServer(os.Args[1:])) },
	})
}

// tests are the tests of this package.
type tests struct{ *testing.M }

func (t tests) Run() int {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) { // as nohup does, and the programs would inherit
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	if err := buildAttach(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return t.M.Run()
}

// buildAttach builds mcptrack-attach as it is released, beside the mcptrack that is in PATH.
func buildAttach() error {
	mcptrack, err := exec.LookPath("mcptrack")
	if err != nil {
		return err
	}
	program := filepath.Join(filepath.Dir(mcptrack), "mcptrack-attach")
	out, err := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "../mcptrack-attach").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build mcptrack-attach: %w\n%s", err, out)
	}
	return nil
}
