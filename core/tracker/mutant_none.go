//go:build !mcptrack_mutants

package tracker

// mutant is a planted defect; none in this build. The build tag mcptrack_mutants
// makes it a variable, so that the tests can show that they would notice.
const mutant = mutantNone
