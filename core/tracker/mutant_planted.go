//go:build mcptrack_mutants

package tracker

// mutant is set by the tests of this build, one defect at a time.
var mutant mutation
