package process

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
)

// NonceKey is the environment variable that marks every child:
// <pid of the tracker>-<its start time>-<random>. The start time is in clock
// ticks since boot on Linux, and 0 elsewhere.
const NonceKey = "MCPTRACK_CHILD"

func newNonce() string { return ownMark() + "-" + rand.Text() }

// ownMark returns the prefix of the marks of all children of this process.
func ownMark() string { return fmt.Sprintf("%d-%d", os.Getpid(), ownStart()) }

// marked returns env with the mark in place of any it had: a tracker may itself
// be a tracked server.
func marked(env []string, nonce string) []string {
	out := make([]string, 0, len(env)+1)
	for _, kv := range env {
		if !strings.HasPrefix(kv, NonceKey+"=") {
			out = append(out, kv)
		}
	}
	return append(out, NonceKey+"="+nonce)
}
