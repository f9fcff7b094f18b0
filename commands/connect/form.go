package connect

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/edit"
	"github.com/mcptrack/mcptrack/core/config/tree"
)

// program returns the members of an entry with which a host starts a program. It has the form that
// the host uses, and passes on the variables to which the original entry refers: some hosts give
// programs only the variables that the entry names.
func program(host string, o *config.Original, command string, args []string, project bool) []edit.Member {
	var env []edit.Member
	for _, r := range o.References {
		env = append(env, edit.Member{Name: r.Name, Value: r.Text})
	}
	list := append([]string{command}, args...)
	var set []edit.Member
	switch {
	case host == "opencode":
		set = []edit.Member{{Name: "type", Value: "local"}, {Name: "command", Value: list}}
		if env != nil {
			set = append(set, edit.Member{Name: "environment", Value: env})
		}
		return set
	case host == "goose":
		set = []edit.Member{{Name: "type", Value: "stdio"}, {Name: "cmd", Value: command}, {Name: "args", Value: args}}
		if names := stringsIn(o.Entry.Get("env_keys")); names != nil { // Goose has their values
			set = append(set, edit.Member{Name: "env_keys", Value: names})
		}
		return set
	case host == "codex":
		set = []edit.Member{{Name: "command", Value: command}, {Name: "args", Value: args}}
		names := append(stringsIn(o.Entry.Get("env_vars")), o.Named...)
		for _, r := range o.References { // Codex expands nothing, but mcptrack does
			names = append(names, r.Name)
		}
		slices.Sort(names)
		if names = slices.Compact(names); len(names) > 0 {
			set = append(set, edit.Member{Name: "env_vars", Value: names})
		}
		return set
	}
	for _, key := range []string{"type", "transport"} {
		if m := o.Entry.Get(key); m != nil && m.Value.Kind == tree.String {
			value := "stdio"
			if old := m.Value.Text; old == "local" || strings.EqualFold(old, "stdio") {
				value = old
			}
			set = append(set, edit.Member{Name: key, Value: value})
		}
	}
	if m := o.Entry.Get("command"); m != nil && m.Value.Kind == tree.Object { // older versions of Zed
		return append(set, edit.Member{Name: "command", Value: []edit.Member{{Name: "path", Value: command}, {Name: "args", Value: args}}})
	}
	set = append(set, edit.Member{Name: "command", Value: command}, edit.Member{Name: "args", Value: args})
	if strings.HasPrefix(host, "vscode") && (project || refersToFolder(o.Entry)) {
		set = append(set, edit.Member{Name: "cwd", Value: "${workspaceFolder}"})
	}
	if env != nil {
		set = append(set, edit.Member{Name: "env", Value: env})
	}
	return set
}

// stringsIn returns the strings in the list in a member.
func stringsIn(m *tree.Member) (all []string) {
	if m == nil {
		return nil
	}
	for _, item := range m.Value.Items {
		if item.Kind == tree.Object && item.Get("name") != nil {
			item = item.Get("name").Value
		}
		if item.Kind == tree.String {
			all = append(all, item.Text)
		}
	}
	return all
}

// refersToFolder reports whether an entry refers to the folder that is open in the host.
func refersToFolder(n *tree.Node) bool {
	return strings.Contains(n.Text, "${workspaceFolder") ||
		slices.ContainsFunc(n.Items, refersToFolder) ||
		slices.ContainsFunc(n.Members, func(m *tree.Member) bool { return refersToFolder(m.Value) })
}

// attach returns the command that hosts run. A file of a project is shared, so it names the command
// without a folder if PATH has it; other files name it with its path, because programs that are
// started from a desktop have another PATH.
func attach(env *cli.Env, project bool) (command string, args []string) {
	command = env.Executable
	small := filepath.Join(filepath.Dir(command), "mcptrack-attach"+exeSuffix())
	if info, err := os.Stat(small); err == nil && info.Mode().IsRegular() {
		command = small
	} else {
		args = []string{"attach"}
	}
	name := filepath.Base(command)
	is, err := os.Stat(command)
	for _, dir := range filepath.SplitList(env.Getenv("PATH")) {
		found, err2 := os.Stat(filepath.Join(dir, name))
		if err != nil || err2 != nil || !filepath.IsAbs(dir) {
			continue
		}
		if !os.SameFile(is, found) {
			break // another version comes first
		}
		if project {
			return strings.TrimSuffix(name, exeSuffix()), args
		}
		return filepath.Join(dir, name), args // may be a link that survives an upgrade
	}
	return command, args
}

func exeSuffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// configArgument returns how the command of an entry refers to mcptrack's config: relative to the
// project if the host starts programs there.
func configArgument(host, path, folder string) string {
	inside, err := filepath.Rel(folder, path)
	if folder == "" || err != nil || !filepath.IsLocal(inside) {
		return path
	}
	switch host {
	case "claude-code", "gemini", "kimi", "qwen", "vscode", "vscode-insiders", "vscode-server":
		return filepath.ToSlash(inside)
	case "cursor", "trae":
		return "${workspaceFolder}/" + filepath.ToSlash(inside)
	}
	return path
}
