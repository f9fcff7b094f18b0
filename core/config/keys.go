package config

import (
	"strings"
)

// serverKeys are the keys of a server that mean something to us, each with its
// other spellings.
func serverKeys() map[string][]string {
	return map[string][]string{
		"id": nil, "description": nil, "enabled": {"disabled"}, "type": {"transport"},
		"command": nil, "args": nil, "env": nil, "envFile": nil, "cwd": {"workingDirectory"},
		"url": {"serverUrl", "httpUrl"}, "headers": nil,
		"trackResources": nil, "trackTools": nil, "trackPrompts": nil, "include": nil, "exclude": nil,
		"read": nil, "pollInterval": nil, "catalogInterval": nil, "onConnect": nil,
		"protocol": {"protocolEra"}, "connectTimeout": nil, "requestTimeout": nil,
	}
}

// foreignKeys are keys of a server that other clients define and that change
// nothing about how it is reached or followed: they pass without a word. Keys
// that do change it under another name (environment, baseUrl, …) are not here,
// because to skip them silently would be to misread the file.
func foreignKeys() []string {
	return []string{
		"$comment", "$schema", "alwaysAllow", "alwaysLoad", "allowedTools", "author", "auth", "authProviderType",
		"autoApprove", "autoRefreshOnListChanged", "autoStart", "callbackPort", "category", "clientName", "comment",
		"connectionTimeout", "debug", "default_tools_approval_mode", "dev", "disabledTools", "enabled_tools",
		"disabled_tools", "enabledTools", "excludeTools", "excludedTools", "gallery", "headersHelper", "homepage",
		"icon", "iconPath", "icons", "includeTools", "initTimeout", "label", "lifecycle", "logo", "metadata", "name",
		"networkTimeout", "note", "notes", "oauth", "oauth_resource", "options", "provider", "required", "roots",
		"sandbox", "sandboxEnabled", "scopes", "settings", "source", "startup_timeout_ms", "startup_timeout_sec",
		"supports_parallel_tool_calls", "tags", "targetAudience", "targetServiceAccount", "timeout", "title",
		"tokenCacheDir", "toolFilter", "tool_timeout_sec", "tools", "trust", "version", "watchPaths",
	}
}

// rootKeys are the keys of the document: those we read and those of other
// clients beside them.
func rootKeys() (own, foreign []string) {
	return []string{"servers", "mcpServers", "inputs", "index"},
		[]string{"$schema", "$comment", "sandbox", "version", "globalShortcut", "preferences", "mcpProxy", "imports"}
}

// misnamed says which of our keys another client's key stands for, where spelling
// alone would not tell.
func misnamed(name string) string {
	return map[string]string{
		"transportType": "type", "baseUrl": "url", "endpoint": "url", "uri": "url", "environment": "env",
		"environmentVariables": "env", "isActive": "enabled", "active": "enabled", "http_headers": "headers",
		"protocolVersion": "protocol", "workdir": "cwd", "workingDir": "cwd", "dir": "cwd", "directory": "cwd",
		"arguments": "args", "cmd": "command", "bearer_token_env_var": "headers", "env_http_headers": "headers",
		"mcp_servers": "mcpServers", "context_servers": "mcpServers", "mcp": "mcpServers",
	}[name]
}

// nearest returns the candidate that name was probably meant to be, or "".
func nearest(name string, candidates []string) string {
	if len(name) > 64 { // no key of ours is that long, and the distance is quadratic
		return ""
	}
	plain := plainKey(name)
	best, bestDistance := "", 1+max(1, len(plain)/4)
	for _, c := range candidates {
		if d := distance(plain, plainKey(c)); d < bestDistance || d == bestDistance && best != "" && c < best {
			best, bestDistance = c, d
		}
	}
	return best
}

// plainKey makes track_resources, track-resources and trackResources the same.
func plainKey(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
}

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours (optimal string alignment) between two strings, in bytes.
func distance(a, b string) int {
	before, previous, current := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(b)]
}
