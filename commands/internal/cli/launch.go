package cli

import (
	"context"
	"encoding/json"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock/launch"
)

// Machine tells where package managers of the user store what they have installed.
func (e *Env) Machine() launch.Machine {
	return launch.Machine{Home: e.Getenv("HOME"), Getenv: e.Getenv}
}

// Launch returns how a server is started or reached, for the lock.
func (e *Env) Launch(ctx context.Context, srv config.Server) json.RawMessage {
	l, _ := launch.Of(ctx, srv, e.Machine())
	definition, _ := json.Marshal(l) // cannot fail: its fields are texts
	return definition
}
