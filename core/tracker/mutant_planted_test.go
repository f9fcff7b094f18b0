//go:build mcptrack_mutants

package tracker

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// mutantVar names the planted defect for a re-executed test binary.
const mutantVar = "MCPTRACK_TEST_MUTANT"

func init() {
	n, _ := strconv.Atoi(os.Getenv(mutantVar))
	mutant = mutation(n)
}

// TestMutantsAreCaught runs the tests of the promises once for every planted
// defect, and wants them to fail.
func TestMutantsAreCaught(t *testing.T) {
	for m, name := range map[mutation]string{
		mutantNone:        "none",
		mutantLeadingOnly: "leading only",
		mutantLateClear:   "bit cleared late",
		mutantEventFirst:  "event before read",
		mutantStaleRead:   "read from before the signal",
		mutantReadFirst:   "read before subscribe",
		mutantCachedRead:  "cached read",
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^(TestProperties|TestRateAndLatency|TestPromise.*)$", "-rapid.nofailfile", "-rapid.checks=2000", "-rapid.shrinktime=1s")
			cmd.Env = append(os.Environ(), mutantVar+"="+strconv.Itoa(int(m)))
			out, err := cmd.CombinedOutput()
			if m == mutantNone && err != nil {
				t.Fatalf("the tests fail without a defect:\n%s", out)
			}
			if m != mutantNone && err == nil {
				t.Fatalf("nobody noticed; the tests said:\n%s", out)
			}
			if m != mutantNone && !strings.Contains(string(out), "--- FAIL") {
				t.Fatalf("the tests did not fail but broke:\n%s", out)
			}
		})
	}
}
