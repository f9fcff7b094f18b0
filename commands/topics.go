package commands

import (
	"embed"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/audit"
	"github.com/mcptrack/mcptrack/commands/daemon"
	"github.com/mcptrack/mcptrack/commands/gateway"
	"github.com/mcptrack/mcptrack/commands/inject"
	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/lock"
	"github.com/mcptrack/mcptrack/commands/login"
	"github.com/mcptrack/mcptrack/commands/serve"
	"github.com/mcptrack/mcptrack/commands/vault"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/event"
)

// manual contains the help pages, as Markdown, that do not belong to one of the command packages.
//
//go:embed topics/*.md
var manual embed.FS

// Tree returns the command tree with all help texts, for man pages (scripts/man.go). markdown reports
// whether a command's Long text is Markdown.
func Tree(env *cli.Env) (root *cobra.Command, markdown func(*cobra.Command) bool) {
	root = newRoot(env, &cli.Globals{})
	for _, cmd := range root.Commands() {
		if name, ok := cmd.Annotations[cli.PageAnnotation]; ok {
			cmd.Long = page(name)
		}
	}
	return root, func(cmd *cobra.Command) bool { return cmd.Annotations[cli.PageAnnotation] != "" }
}

// newTopics returns the help topics.
func newTopics() []*cobra.Command {
	var topics []*cobra.Command
	for _, t := range []struct{ name, short string }{
		{"config", "Keys of the config, variables, how it is followed"},
		{"environment", "Where configs are searched; environment variables"},
		{"events", "Types of events and their members"},
		{"agents", "Changes for agents that read a process or call tools"},
		{"mcp-events", "Events for MCP clients (gateway --events)"},
		{"webhooks", "Events sent to the webhooks of the config"},
		{"hooks", "Incoming webhooks: what other programs report"},
		{"audit-rules", "What audit checks, and what to do about a finding"},
		{"exit-codes", "The exit codes"},
		{"limits", "Limits on what a server may send"},
		{"serving", "HTTP routes of serve-sse, resuming, access, clusters"},
		{"realtime", "Updates for live Realtime conversations (inject)"},
		{"catalogs", "HTTP APIs as tools of the gateway"},
		{"index", "The capability index of the gateway"},
		{"embedding", "mcptrack as a Go library"},
	} {
		topics = append(topics, &cobra.Command{Use: t.name, Short: t.short, Annotations: cli.ManualPage(t.name)})
	}
	return topics
}

// page returns a page of the manual, either from topics or from the folder of a feature.
func page(name string) string {
	for _, pages := range []embed.FS{audit.Manual, daemon.Manual, gateway.Manual, inject.Manual, lock.Manual, login.Manual, serve.Manual, vault.Manual} {
		if text, err := pages.ReadFile(name + ".md"); err == nil {
			return withTables(string(text))
		}
	}
	text, err := manual.ReadFile("topics/" + name + ".md")
	if err != nil {
		panic(err) // cannot happen: the pages are embedded, and tests read every page
	}
	return withTables(string(text))
}

// withTables returns a page with the tables that are made from the program.
func withTables(page string) string {
	return strings.NewReplacer("EVENT_TABLE\n", eventTable(), "KEY_TABLE\n", keyTable(config.KeyTexts()), "CLIENT_TABLE\n", keyTable(config.ClientKeyTexts()), "HOST_TABLE\n", hostTable(), "RULE_TABLE\n", audit.RuleTable(), "CLASS_TABLE\n", lock.ClassTable()).Replace(page)
}

// hostTable returns a Markdown table with the files of every host.
func hostTable() string {
	folders := map[hosts.Base]string{hosts.Home: "~/", hosts.XDG: "~/.config/", hosts.AppConfig: "CONFIG/"}
	var b strings.Builder
	b.WriteString("| host | files |\n|---|---|\n")
	for _, h := range hosts.All() {
		var files []string
		for _, f := range h.Files {
			path := folders[f.Base] + f.Path
			if len(path) > 60 { // help has 80 columns
				path = path[:strings.LastIndexByte(path[:60], '/')+1] + "…"
			}
			files = append(files, "`"+path+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", h.Name, strings.Join(files, ", "))
	}
	return b.String()
}

// keyTable returns a Markdown table with a row for every config key.
func keyTable(keys []config.KeyText) string {
	var b strings.Builder
	b.WriteString("| key | meaning |\n|---|---|\n")
	for _, k := range keys {
		fmt.Fprintf(&b, "| `%s` | %s |\n", k.Name, k.Text)
	}
	return b.String()
}

// eventTable returns a Markdown table with a row for every event type.
func eventTable() string {
	var b strings.Builder
	b.WriteString("| type | meaning and members |\n|---|---|\n")
	first := map[string]event.Type{} // the type whose row lists these members
	for _, d := range event.Definitions() {
		members := memberTexts(d)
		if same, ok := first[members]; ok {
			members = fmt.Sprintf("Members as `%s`.", same)
		} else {
			first[members] = d.Type
		}
		fmt.Fprintf(&b, "| `%s` | %s %s |\n", d.Type, d.About, members)
	}
	return b.String()
}

// memberTexts lists the members of an event type in Markdown. A ? marks an optional member.
func memberTexts(d event.Definition) string {
	var texts []string
	for _, m := range d.Members() {
		text := "`" + m.Name + "`"
		if m.Optional {
			text = "`" + m.Name + "?`"
		}
		if m.About != "" {
			text += " (" + strings.ReplaceAll(m.About, "|", `\|`) + ")"
		}
		texts = append(texts, text)
	}
	return "Members: " + strings.Join(texts, ", ") + "."
}
