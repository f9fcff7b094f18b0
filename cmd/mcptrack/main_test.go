package main

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary also be the program: called as mcptrack, it is mcptrack.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){
		"mcptrack": func() { os.Exit(run()) },
	})
}

// tests are the tests of this package. They all start the program, so -short skips them.
type tests struct{ *testing.M }

func (t tests) Run() int {
	flag.Parse()
	if testing.Short() {
		fmt.Println("the tests of the program do not run with -short")
		return 0
	}
	return t.M.Run()
}
