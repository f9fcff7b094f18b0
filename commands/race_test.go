//go:build race

package commands

// raced is true with the race detector. Tests that try hundreds of command lines, one after another,
// then try some of them, because scripts/check.sh also runs these tests without it.
const raced = true
