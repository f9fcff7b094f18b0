//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestOwnPackagesStartFast: what a package of ours needs once it is used is not made at
// the start of every command.
func TestOwnPackagesStartFast(t *testing.T) {
	t.Parallel()
	cmd := mcptrackCommand(t.Context(), "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	inits := 0
	for line := range strings.Lines(trace.String()) {
		var (
			name          string
			at, took      float64
			bytes, allocs int
		)
		if _, err := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes, %d allocs", &name, &at, &took, &bytes, &allocs); err != nil {
			continue
		}
		inits++
		if strings.HasPrefix(name, "github.com/mcptrack/") && allocs > 300 {
			t.Errorf("%s makes %d allocations, %d bytes", name, allocs, bytes)
		}
	}
	if inits < 20 {
		t.Errorf("%d packages in the trace:\n%s", inits, trace.String())
	}
}
