package commands

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/event"
)

// newTopics are the help pages that belong to no command.
func newTopics() []*cobra.Command {
	topic := func(name, short, long string) *cobra.Command {
		return &cobra.Command{Use: name, Short: short, Long: long}
	}
	return []*cobra.Command{
		topic("environment", "Where the config is found, and variables that matter", environmentHelp),
		topic("exit-codes", "What the exit codes mean", exitCodesHelp),
		topic("events", "The events of watch and subscribe, and their members", eventsHelp()),
	}
}

const environmentHelp = `The config is the file named by --config, else by MCPTRACK_CONFIG, else the first
of these that exists:

  config/mcp-servers.json     in the working directory
  mcp-servers.json
  .mcp.json
  .cursor/mcp.json
  .vscode/mcp.json
  mcptrack/mcp-servers.json   in your config folder (XDG_CONFIG_HOME or ~/.config)

Variables:

  MCPTRACK_CONFIG       the config, when --config is not given
  MCPTRACK_INPUT_<ID>   the value of ${input:<id>} in a config, upper case, with
                        every other character as _
  MCPTRACK_INDEX        of gateway: true is --index; MCPTRACK_INDEX_EXPOSE and
                        MCPTRACK_INDEX_TTL as the flags of these names
  OPENAI_API_KEY        the key of inject
  MCPTRACK_TOKEN        the token of the serve-sse that inject --from follows
  NO_COLOR              set: no colours          CLICOLOR_FORCE=1: always colours
  TERM=dumb             no colours
  XDG_CONFIG_HOME       your config folder
  XDG_CACHE_HOME        where names for completion are kept (in mcptrack/)

Strings of a config may refer to any variable as ${VAR} or ${VAR:-default}.
Servers that are started inherit PATH, HOME and the like, and what their "env" and
"envFile" say; nothing else of the environment reaches them.`

const exitCodesHelp = `  0    done. Also: a streaming command that was ended by SIGINT, SIGTERM, --count,
       --timeout after at least what was asked, or a closed pipe
  1    failed
  2    wrong usage
  3    the config is invalid or missing
  4    some servers could not be reached; what could be got is printed
  5    the server refused or lacks what was asked (no such resource, a tool's
       error, no resources)
  6    --timeout ran out before what was asked happened
  130  a one-shot command was interrupted

With --json a failure also writes one line on stderr:
{"error":{"code":"config_invalid","message":"…","hint":"…"}}`

// eventsHelp describes every type of event; a test keeps it complete.
func eventsHelp() string {
	var b strings.Builder
	b.WriteString(`Every event is one JSON object in one line:

  {"id":"3f9a1c20b7e4d581-42","type":"resource.updated","serverId":"docs",
   "resourceUri":"file:///guide.md","timestamp":"2026-11-20T19:37:25.123Z",
   "cause":"notify", …}

id is the epoch of the log (of the run, where nothing is stored) in hex and a
number that rises by one without holes; timestamp is in UTC. cause tells how a change was noticed: notify (announced),
trailing (announced shortly after another, and told when things were quiet),
resync (found after a time in which announcements may have been lost), poll.

Events tell states, not edges: once a resource is quiet, its last event tells its
current content. A change that is taken back within 2 s may stay invisible.

`)
	for _, t := range event.Types() {
		fmt.Fprintf(&b, "  %-24s %s\n", t, eventMembers(t))
	}
	b.WriteString(`
The states of a server are Pending, Connecting, Ready, Backoff, Unsupported,
NeedsAuth, Disabled and Stopping.`)
	return b.String()
}

// eventMembers names what an event has beside the common members; ? marks those
// that are not always there.
func eventMembers(t event.Type) string {
	switch t {
	case event.TypeServerState:
		return "state, previous, reason?, error?, attempt?, retryInMs?,\n" + strings.Repeat(" ", 27) + "protocolVersion?, era?"
	case event.TypeSubscriptionActive:
		return "resources (number or list), mode (push or poll), missing?"
	case event.TypeResourceUpdated:
		return "changed? (false: announced, but the content is the same),\n" + strings.Repeat(" ", 27) +
			"name?, mimeType?, size?, digest?, previousDigest?,\n" + strings.Repeat(" ", 27) + "content? (--content), diff? (--diff)"
	case event.TypeResourceAdded, event.TypeResourceRemoved:
		return "name?, mimeType?"
	case event.TypeResourceChanged:
		return "name?, mimeType? (the descriptor changed)"
	case event.TypeResourcesListChanged, event.TypeTemplatesListChanged, event.TypePromptsListChanged, event.TypeToolsListChanged:
		return "added, removed, changed, details? (how the changed ones\n" + strings.Repeat(" ", 27) +
			"differ: key, fields, changes), error? (the old list is kept)"
	case event.TypeConfigReloaded:
		return "added, removed, changed, durationMs"
	case event.TypeConfigRejected:
		return "problems (the old config stays)"
	case event.TypeResourceContent:
		return "template?, changed?, mimeType?, size, digest, previousDigest?:\n" + strings.Repeat(" ", 27) + "a client here has the content anew"
	case event.TypePromptContent:
		return "name, size: a client here got a prompt"
	case event.TypeToolResult:
		return "name, success, error?, durationMs: a client here called a tool"
	case event.TypeSubscriptionsChanged:
		return "uris: what clients here are subscribed to, beside the config"
	case event.TypeGap:
		return "from, to, reason: events that are no longer there"
	}
	return ""
}
