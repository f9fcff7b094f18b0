//go:build unix

package main

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// maxInit limits what the packages of the program allocate before main runs, in bytes. Every command pays
// for it. Unlike the time that they take, which scripts/bench.sh measures, it does not depend on what else the
// machine does.
const maxInit = 1500 << 10

// maxPackageInit limits what a package allocates that large does not name.
const maxPackageInit = 100 << 10

// large packages are worth their start.
func large() map[string]string {
	return map[string]string{
		"github.com/olekukonko/tablewriter/pkg/twwidth": "a cache of widths, which tables make whether or not one is drawn",
		"github.com/yuin/goldmark/util":                 "the entities of HTML, for notes and the manual",
		"github.com/yuin/goldmark/parser":               "the expressions that find HTML in notes",
	}
}

func TestPackagesInitialiseLittle(t *testing.T) {
	t.Parallel()
	deps, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := map[string]bool{} // this test also links others
	for pkg := range strings.FieldsSeq(string(deps)) {
		linked[pkg] = true
	}
	cmd := mcptrackCommand(t.Context(), "version")
	cmd.Env = append(cmd.Environ(), "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &trace)
	}
	sum := 0
	for _, line := range regexp.MustCompile(`(?m)^init (\S+) @.*, (\d+) bytes, \d+ allocs$`).FindAllStringSubmatch(trace.String(), -1) {
		pkg := strings.ReplaceAll(line[1], "%2e", ".")
		bytes, err := strconv.Atoi(line[2])
		if err != nil {
			t.Fatal(err)
		}
		if !linked[pkg] {
			continue
		}
		sum += bytes
		if large()[pkg] == "" && bytes > maxPackageInit {
			t.Errorf("%s allocates %d bytes when the program starts: build what it needs when it is needed, or replace the library", pkg, bytes)
		}
	}
	if sum == 0 || sum > maxInit {
		t.Errorf("the packages allocate %d bytes when the program starts, of %d:\n%s", sum, maxInit, &trace)
	}
}
