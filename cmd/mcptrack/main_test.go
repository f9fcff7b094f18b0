package main

import (
	"os"
	"testing"

	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary be the programs of the scripts, too: called by
// the name mcptrack it is mcptrack. It is the nodes of a NATS cluster, too.
func TestMain(m *testing.M) {
	if code, node := journaltest.RunNode(); node {
		os.Exit(code)
	}
	testscript.Main(m, map[string]func(){
		"mcptrack": func() { os.Exit(run()) },
	})
}
