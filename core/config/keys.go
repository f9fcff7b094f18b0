package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// serverKeys are the keys of a server that are read.
func serverKeys() []string {
	return append(ownKeys(), "cmd", "environment", "envs", "env_vars", "env_keys", "uri", "tcp",
		"http_headers", "env_http_headers", "bearer_token_env_var", "requestOptions", "auth", "scopes")
}

// ownKeys are the keys of our own format. The other keys that are read are spellings of these,
// or add to them, in the formats of particular hosts.
func ownKeys() []string {
	return []string{
		"id", "description", "enabled", "disabled", "type", "transport",
		"command", "args", "env", "envFile", "cwd", "workingDirectory",
		"url", "serverUrl", "httpUrl", "headers", "oauth",
		"trackResources", "trackTools", "trackPrompts", "include", "exclude",
		"read", "mode", "pollInterval", "safetyInterval", "catalogInterval", "events", "onConnect",
		"protocol", "protocolEra", "connectTimeout", "requestTimeout", "shared",
	}
}

// effectiveKeys are the keys of a server that decide what is run or sent, and to whom: those that
// are read, without names, texts for people, and what only decides what is followed and how.
func effectiveKeys() []string {
	return slices.DeleteFunc(serverKeys(), func(name string) bool {
		return slices.Contains([]string{"id", "description", "enabled", "disabled", "trackResources", "trackTools", "trackPrompts",
			"include", "exclude", "read", "mode", "pollInterval", "safetyInterval", "catalogInterval",
			"protocol", "protocolEra", "connectTimeout", "requestTimeout", "shared"}, name)
	})
}

// foreignKeys are keys of a server that other clients define and that change nothing about how
// it is reached or followed: they are ignored without a warning. Keys that do change it, under
// a name that we do not read (baseUrl, …), are not here, because ignoring them would misread
// the file.
func foreignKeys() []string {
	return append(unsupportedKeys(),
		"alwaysAllow", "alwaysLoad", "allowedTools", "author", "autoApprove", "autoRefreshOnListChanged",
		"autoStart", "available_tools", "bundled", "callbackPort", "category", "clientName", "comment",
		"connectionTimeout", "debug", "default_tools_approval_mode", "dev", "disabledTools", "disabled_tools",
		"display_name", "enabledTools", "enabled_tools", "excludeTools", "excludedTools", "gallery", "homepage",
		"icon", "iconPath", "icons", "includeTools", "initTimeout", "label", "lifecycle", "logo", "metadata", "name",
		"networkTimeout", "note", "notes", "oauth_resource", "options", "provider", "remote", "required", "roots",
		"settings", "source", "startup_timeout_ms", "startup_timeout_sec", "supports_parallel_tool_calls",
		"tags", "timeout", "title", "tokenCacheDir", "toolFilter", "tool_timeout_sec", "tools", "trust", "version", "watchPaths")
}

// unsupportedKeys are keys of other clients that change how a server is reached in ways that
// mcptrack does not support.
func unsupportedKeys() []string {
	return []string{"headersHelper", "authProviderType", "targetAudience", "targetServiceAccount", "sandbox", "sandboxEnabled"}
}

// An unsupportedKey is the first use of such a key and how many servers have it.
type unsupportedKey struct {
	name    string
	offset  int
	path    pointer
	servers int
}

// noteUnsupported counts the entry's unsupported keys, for reportUnsupported.
func (e *entry) noteUnsupported() {
	for _, name := range unsupportedKeys() {
		f, ok := e.present(name)
		if !ok || !e.server.Enabled || f.value.Kind == tree.Bool && !f.value.True() {
			continue
		}
		i := slices.IndexFunc(e.unsupported, func(k unsupportedKey) bool { return k.name == name })
		if i < 0 {
			i = len(e.unsupported)
			e.unsupported = append(e.unsupported, unsupportedKey{name: name, offset: f.key, path: f.path})
		}
		e.unsupported[i].servers++
	}
}

// reportUnsupported warns of each unsupported key once for the whole file.
func (r *reader) reportUnsupported() {
	for _, k := range r.unsupported {
		message := fmt.Sprintf("%q is not supported", k.name)
		if k.servers > 1 {
			message += fmt.Sprintf(" (in %d servers)", k.servers)
		}
		hint := "mcptrack connects to the server without it"
		if k.name == "headersHelper" {
			hint = `mcptrack connects to the server without it; put the values into "headers", with ${VAR}, ${file:PATH} or ${keyring:NAME}`
		}
		r.warnAt(k.offset, k.path, CodeUnsupported, message, hint)
	}
}

// misnamed returns our key for another client's key that means the same but is spelled too
// differently to be suggested.
func misnamed(name string) string {
	return map[string]string{
		"transportType": "type", "baseUrl": "url", "endpoint": "url",
		"environmentVariables": "env", "isActive": "enabled", "active": "enabled",
		"protocolVersion": "protocol", "workdir": "cwd", "workDir": "cwd", "workingDir": "cwd", "dir": "cwd", "directory": "cwd",
		"arguments": "args", "bearer_token": "headers", "mcp-servers": "mcpServers",
	}[name]
}

// plainKey makes streamable_http, streamable-http and streamableHttp the same.
func plainKey(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
}
