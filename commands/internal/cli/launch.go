package cli

import (
	"context"
	"encoding/json"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock/launch"
)

// Machine tells where package managers of the user store what they have installed.
func (env *Env) Machine() launch.Machine {
	return launch.Machine{Home: env.Getenv("HOME"), Getenv: env.Getenv}
}

// Launch returns how a server is started or reached, for the lock.
func (env *Env) Launch(ctx context.Context, srv config.Server) json.RawMessage {
	l, _ := launch.Of(ctx, srv, env.Machine())
	definition, _ := json.Marshal(l) // cannot fail: its fields are texts
	return definition
}
