package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary be the programs of the scripts, too: called by
// the name mcptrack it is mcptrack.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"mcptrack": func() { os.Exit(run()) },
	})
}
