//go:build race

package sqlitelog

// raced is true with the race detector. Tests that take long and use one goroutine then do less or
// nothing, because scripts/check.sh runs all tests of this package also without it.
const raced = true
