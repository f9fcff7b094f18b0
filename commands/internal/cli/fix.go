package cli

import (
	"strings"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/launcher"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/trust"
)

// Fix says what to do about a server of a config that cannot be used because of its entry or, if that is
// usable, in a state in which it cannot be connected to. It is empty if the error of the state says it.
func (g *Globals) Fix(env *Env, cfg *config.Config, srv config.Server, state event.State) string {
	_, found := srv.Find(env.Getenv("PATH"))
	switch line := LineOf(cfg, srv.ID); {
	case srv.Unapproved != "" && !srv.Superseded:
		return ""
	case srv.Unusable() != nil && !found && srv.Transport == config.TransportStdio:
		return install(srv.Command)
	case srv.Unusable() != nil:
		return "set what is missing, or set \"enabled\": false; mcptrack validate " + printable.Shell(cfg.Path) + " shows where"
	case state == event.NeedsAuth && login.TargetOf(srv).URL != "":
		return g.LoginCommand(srv)
	case srv.Transport == config.TransportStdio && line != "":
		return "run its command to see why: " + line
	case srv.Transport == config.TransportStdio:
		return "run its command to see why"
	default:
		return "check that it runs, and the URL in the config: " + line
	}
}

// LineOf returns the command or the address of a server as it is written in the config, in one line and without
// secrets; empty if the config does not have it.
func LineOf(cfg *config.Config, server string) string {
	for _, e := range Entries(cfg) {
		if e.Kind == trust.Server && e.Name == server {
			return e.line
		}
	}
	return ""
}

// LoginCommand returns the command line that logs in to a server.
func (g *Globals) LoginCommand(srv config.Server) string {
	return strings.Join(append([]string{login.TargetOf(srv).Command()}, g.OfHost()...), " ")
}

// install says how to install a program.
func install(name string) string {
	from := map[string]string{
		"node": "Node.js from https://nodejs.org", "npm": "Node.js from https://nodejs.org", "npx": "Node.js from https://nodejs.org",
		"uv": "uv from https://docs.astral.sh/uv", "uvx": "uv from https://docs.astral.sh/uv", "pipx": "pipx from https://pipx.pypa.io",
		"docker": "Docker from https://docs.docker.com/get-docker", "podman": "Podman from https://podman.io",
		"bun": "Bun from https://bun.sh", "bunx": "Bun from https://bun.sh", "deno": "Deno from https://deno.com",
		"python": "Python from https://www.python.org", "python3": "Python from https://www.python.org",
	}[strings.ToLower(launcher.Base(name))]
	if from == "" {
		return "install it, or set \"command\" to its absolute path"
	}
	return "install " + from + ", or set \"command\" to its absolute path"
}
