package commands

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/output/realtime"
)

// idleSave is the interval of writes of the progress while nothing is delivered.
const idleSave = 5 * time.Second

// progressFile opens the file that stores how far the feed was delivered to the target; each
// pair of feed and target has one. Without a feed there is nothing to resume: events of tracked
// servers have ids of one run only.
func (o *injectOptions) progressFile(env *Env) (*realtime.ProgressFile, error) {
	dir := env.stateDir()
	if o.from == "" || dir == "" {
		return &realtime.ProgressFile{}, nil
	}
	// Of the queries only those that identify the conversation: others may change or be
	// secret.
	name := strings.Join([]string{o.feed.address(), o.endpoint.Address(), o.endpoint.Query.Get("call_id"), o.endpoint.Query.Get("model")}, "\x00")
	if agent := o.endpoint.Query.Get("agent_id"); agent != "" {
		name += "\x00" + agent
	}
	sum := sha256.Sum256([]byte(name))
	return realtime.OpenProgress(filepath.Join(dir, "inject", hex.EncodeToString(sum[:12])+".json"))
}
