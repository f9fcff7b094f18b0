// Command lint runs the checks of go vet, go fix and staticcheck in one process, so that each package and
// all that it imports are loaded and analysed only once. Tests are checked too.
// usage: lint PACKAGE...
//
// It is a module of its own, because only the checks need these libraries. honnef.co/go/tools is
// maintained and released with each version of Go, and can run the checks of others.
package main

import (
	"os"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/suite/fix"
	"golang.org/x/tools/go/analysis/suite/vet"
	"honnef.co/go/tools/lintcmd"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

// checks leaves out SA1019 (deprecated), as mcp-go deprecates all of the 2025 era of the protocol, which
// we speak on purpose; SA9003 (empty branches), as it reports false positives; and scannererr, as tests
// stop reading lines when they have found the one that they want.
const checks = "-checks=all,-SA1019,-SA9003,-scannererr"

func main() {
	cmd := lintcmd.NewCommand("lint")
	cmd.AddAnalyzers(simple.Analyzers...)
	cmd.AddAnalyzers(staticcheck.Analyzers...)
	cmd.AddAnalyzers(stylecheck.Analyzers...)
	cmd.AddAnalyzers(unused.Analyzer)
	for _, a := range slices.Concat(vet.Suite, fix.Suite) {
		run := a.Run
		a.Run = func(p *analysis.Pass) (any, error) {
			p.ReadFile = os.ReadFile // lintcmd does not set it
			return run(p)
		}
		cmd.AddBareAnalyzers(a)
	}
	cmd.ParseFlags(append([]string{checks}, os.Args[1:]...))
	cmd.Run()
}
