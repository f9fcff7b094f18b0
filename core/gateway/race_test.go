//go:build race

package gateway

// raced is true with the race detector. TestLockTable then tries one transport, because scripts/check.sh
// also runs it without.
const raced = true
