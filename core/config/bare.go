package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/config/tree"
)

// bareVariables warns of $NAME in the command and its arguments, except in those of a
// shell, which expands them itself.
func (e programKeys) bareVariables(command string, args []*tree.Node) {
	shells := []string{"sh", "bash", "zsh", "dash", "ash", "ksh", "fish", "pwsh", "powershell"}
	program := strings.TrimSuffix(strings.ToLower(filepath.Base(command)), ".exe")
	if f, ok := e.find("command", "cmd"); ok && f.value.Kind == tree.String {
		e.bareVariable(f.value, f.path, f.name)
	}
	if slices.Contains(shells, program) || program == "env" || program == "docker" || program == "podman" || program == "wsl" {
		return
	}
	for i, arg := range args {
		e.bareVariable(arg, e.path.key("args").index(i), fmt.Sprintf("args[%d]", i))
	}
}

// bareVariable warns of a $NAME in a value: some hosts expand it, but mcptrack does not.
func (e programKeys) bareVariable(n *tree.Node, path pointer, name string) {
	if n.Kind != tree.String || !strings.Contains(n.Text, "$") || !e.server.Enabled {
		return
	}
	variable := bareName(n.Text)
	if variable == "" {
		return
	}
	if credential.Doubtful(variable) || len(variable) > 64 {
		variable = "NAME"
	}
	e.warnAt(n.Offset, path, CodeBareVariable,
		fmt.Sprintf("%s: %s has $%s, which is not expanded", e.label, quote(name), variable), fmt.Sprintf("write ${%s}", variable))
}

// bareName returns the first NAME that s contains as $NAME or $env:NAME: two or more capital
// letters, digits and underscores. "$$" and "\\$" mean a literal dollar.
func bareName(s string) string {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == '$' && strings.HasPrefix(s[i+1:], "$"):
			i++
		case s[i] == '$':
			rest := strings.TrimPrefix(s[i+1:], "env:")
			n := 0
			for n < len(rest) && (rest[n] == '_' || 'A' <= rest[n] && rest[n] <= 'Z' || n > 0 && '0' <= rest[n] && rest[n] <= '9') {
				n++
			}
			if n > 1 && rest[0] != '_' {
				return rest[:n]
			}
		}
	}
	return ""
}
