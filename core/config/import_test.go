package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// imports returns the entries of a file as JSON, and the variables that replaced secrets.
func imports(t *testing.T, name, text string) (entries []string, variables string) {
	t.Helper()
	dir := t.TempDir()
	servers, problems := Import(write(t, filepath.Join(dir, name), text), surroundings(t, map[string]string{"K": "hunter2-of-the-environment"}), &Names{})
	must(t, problems.Err())
	for _, s := range servers {
		var line strings.Builder
		line.WriteString(s.ID)
		if !s.Enabled {
			line.WriteString(" off")
		}
		for _, k := range s.Keys {
			value, err := json.Marshal(k.Value)
			must(t, err)
			line.WriteString(" " + k.Name + "=" + string(value))
		}
		entries = append(entries, line.String())
		for _, v := range s.Variables {
			variables += " " + v.Name
		}
	}
	return entries, variables
}

// An imported server has our own keys and references, and no secret.
func TestImport(t *testing.T) {
	const token = "ghp_hunter2hunter2hunter2hunter2hunter2"
	for _, test := range []struct{ name, text, want, variables string }{
		{"mcp.json", `{"mcpServers": {"docs": {"command": "go", "args": ["--token=` + token + `", "--api-key", "hunter2", "-v"], "env": {"API_KEY": "hunter2", "N": 1, "DB": "postgres://u:hunter2@h/"}, "cwd": "${workspaceFolder}"}}}`,
			`docs command="go" args=["--token=${DOCS_TOKEN}","--api-key","${DOCS_API_KEY}","-v"] env={"API_KEY":"${API_KEY}","DB":"postgres://u:${DB_PASSWORD}@h/","N":"1"} cwd="${workspaceFolder}"`,
			" DOCS_TOKEN DOCS_API_KEY API_KEY DB_PASSWORD"},
		{"mcp.json", `{"mcpServers": {"my web": {"type": "sse", "url": "https://h/sse", "headers": {"Authorization": "Bearer hunter2", "X-Key": "${K:-d}"}, "disabled": true, "include": ["a://*"]}}}`,
			`my web off type="sse" url="https://h/sse" headers={"Authorization":"Bearer ${MY_WEB_AUTHORIZATION}","X-Key":"${K:-d}"} include=["a://*"]`, " MY_WEB_AUTHORIZATION"},
		{"mcp.json", `{"mcpServers": {"a": {"command": "go", "env": {"KEY_TOKEN": "hunter2"}}, "b": {"command": "go", "env": {"KEY_TOKEN": "hunter3"}}, "c": {"command": "go", "env": {"KEY_TOKEN": "hunter2"}}}}`,
			"a command=\"go\" env={\"KEY_TOKEN\":\"${KEY_TOKEN}\"}\nb command=\"go\" env={\"KEY_TOKEN\":\"${KEY_TOKEN_2}\"}\nc command=\"go\" env={\"KEY_TOKEN\":\"${KEY_TOKEN}\"}",
			" KEY_TOKEN KEY_TOKEN_2 KEY_TOKEN"},
		{"mcp.json", `{"mcpServers": {"web": {"url": "https://h/mcp?token=hunter2"}}}`, `web url="https://h/mcp?token=${WEB_TOKEN}"`, " WEB_TOKEN"},
		{"mcp.json", `{"mcpServers": {"api": {"command": "go", "args": ["--header=X-API-Key: hunter2", "--header", "X-Key:hunter2", "{\"token\":\"hunter2\"}"], "env": {"OPENAPI_MCP_HEADERS": "{\"Authorization\":\"Bearer hunter2\"}", "PGPASSWORD": "hunter2"}}}}`,
			`api command="go" args=["--header=X-API-Key: ${API_X_API_KEY}","--header","X-Key:${API_X_KEY}","{\"token\":\"${API_TOKEN}\"}"] env={"OPENAPI_MCP_HEADERS":"{\"Authorization\":\"Bearer ${OPENAPI_MCP_HEADERS_AUTHORIZATION}\"}","PGPASSWORD":"${PGPASSWORD}"}`,
			" API_X_API_KEY API_X_KEY API_TOKEN OPENAPI_MCP_HEADERS_AUTHORIZATION PGPASSWORD"},
		{"mcp.json", `{"mcpServers": {"a": {"command": "go", "env": {"K": "${env:pplx-hunter2}", "L": "${V:-` + token + `}"}, "onConnect": [{"tool": "login", "arguments": {"password": "hunter2"}}]}}}`,
			`a command="go" env={"K":"${K_SECRET}","L":"${L_SECRET}"} onConnect=[{"arguments":{"password":"${A_PASSWORD}"},"tool":"login"}]`, " K_SECRET L_SECRET A_PASSWORD"},
		{"mcp.json", `{"mcpServers": {"a": {"url": "https://h/s/aB3dE6gH9jK2mN5pQ8sT1vW4/mcp", "headers": {"X-Auth": "hunter2", "X-Access": "${env:K}"}}}}`,
			`a url="https://h/s/${A_URL_SECRET}/mcp" headers={"X-Access":"${K}","X-Auth":"${A_X_AUTH}"}`, " A_URL_SECRET A_X_AUTH"},
		{"mcp.json", `{"mcpServers": {"a": {"command": "go", "events": {"types": ["issue.*"], "delivery": "poll"}}, "b": {"command": "go", "events": "off", "protocolEra": "modern"}}}`,
			"a command=\"go\" events={\"delivery\":\"poll\",\"types\":[\"issue.*\"]}\nb command=\"go\" events=\"off\" protocol=\"modern\"", ""},
		{"config.toml", "[mcp_servers.a]\ncommand = \"go\"\nenv_vars = [\"K\", {name = \"L\", source = \"local\"}]\n", `a command="go" env_vars=["K","L"]`, ""},
		{"mcp.json", `{"mcpServers": {"a": {"url": "https://h/", "auth": {"CLIENT_ID": "me", "CLIENT_SECRET": "hunter2", "scopes": ["x"]}}, "b": {"url": "https://h/", "oauth": true}}}`,
			"a url=\"https://h/\" oauth={\"clientId\":\"me\",\"clientSecret\":\"${A_CLIENT_SECRET}\",\"redirectUri\":\"http://localhost:8787/callback\",\"scopes\":[\"x\"]}\nb url=\"https://h/\"", " A_CLIENT_SECRET"},
		{"mcp.json", `{"mcpServers": {"a": {"url": "https://h/", "oauth": {"clientId": "1601185624273.8899143856786", "callbackPort": 3118, "scopes": "a b", "authServerMetadataUrl": "https://as/meta", "xaa": true}}}}`,
			`a url="https://h/" oauth={"authServerMetadataUrl":"https://as/meta","callbackPort":3118,"clientId":"1601185624273.8899143856786","scopes":"a b"}`, ""},
		{"settings.json", `{"mcpServers": {"a": {"httpUrl": "https://h/", "oauth": {"enabled": true, "clientId": "me", "clientSecret": "${GEMINI}", "redirectUri": "http://localhost:7777/oauth/callback", "tokenUrl": "https://as/token"}}}}`,
			`a url="https://h/" oauth={"clientId":"me","clientSecret":"${GEMINI}","redirectUri":"http://localhost:7777/oauth/callback"}`, ""},
		{"mcp.json", `{"mcpServers": {"a": {"url": "https://h/", "auth": {"CLIENT_ID": "me", "CLIENT_SECRET": "${env:K}"}, "oauth": {"clientId": "you", "callbackPort": 8080}}}}`,
			`a url="https://h/" oauth={"callbackPort":8080,"clientId":"you","clientSecret":"${K}"}`, ""},
		{"config.toml", "[mcp_servers.web]\nurl = \"https://h/\"\nscopes = [\"a\"]\noauth_resource = \"https://h/\"\n[mcp_servers.web.oauth]\nclient_id = \"me\"\nclient_secret = \"hunter2\"\n",
			`web url="https://h/" oauth={"clientId":"me","clientSecret":"${WEB_CLIENT_SECRET}","scopes":["a"]}`, " WEB_CLIENT_SECRET"},
		{"opencode.json", `{"mcp": {"docs": {"type": "remote", "url": "https://h/", "oauth": {"clientId": "me", "clientSecret": "{env:K}", "scope": "a b"}}, "off": {"type": "remote", "url": "https://h/", "oauth": false}}}`,
			"docs url=\"https://h/\" oauth={\"clientId\":\"me\",\"clientSecret\":\"${K}\",\"scopes\":\"a b\"}\noff url=\"https://h/\"", ""},
		{"config.toml", "[mcp_servers.web]\nurl = \"https://h/\"\nbearer_token_env_var = \"sk-hunter2\"\n", `web url="https://h/" headers={"Authorization":"Bearer ${WEB_AUTHORIZATION}"}`, " WEB_AUTHORIZATION"},
		{"opencode.json", `{"mcp": {"docs": {"type": "local", "command": ["go", "mcp"], "environment": {"A": "{env:K}"}}}}`,
			`docs command="go" args=["mcp"] env={"A":"${K}"}`, ""},
		{"config.toml", "[mcp_servers.web]\nurl = \"https://h/\"\nbearer_token_env_var = \"K\"\nenv_http_headers = {X = \"K\"}\n",
			`web url="https://h/" headers={"Authorization":"Bearer ${K}","X":"${K}"}`, ""},
		{"config.yaml", "extensions:\n  docs: {type: stdio, cmd: go, args: [mcp], env_keys: [K]}\n  dev: {type: builtin}\n",
			`docs command="go" args=["mcp"] env={"K":"${K}"}`, ""},
		{"c.yaml", "mcpServers:\n  - name: docs\n    command: go\n    env: {A: \"${{ secrets.K }}\"}\n    onConnect: [{tool: t, arguments: {n: 1}}]\n",
			`docs command="go" env={"A":"${K}"} onConnect=[{"arguments":{"n":1},"tool":"t"}]`, ""},
	} {
		entries, variables := imports(t, test.name, test.text)
		if got := strings.Join(entries, "\n"); got != test.want || variables != test.variables {
			t.Errorf("%s\n got %s |%s\nwant %s |%s", test.text, got, variables, test.want, test.variables)
		}
	}
	plugin := t.TempDir()
	write(t, filepath.Join(plugin, ".claude-plugin", "plugin.json"), "{}")
	file := write(t, filepath.Join(plugin, ".mcp.json"), `{"a": {"command": "go", "args": ["${CLAUDE_PLUGIN_ROOT}/x"]}}`)
	for workspace, want := range map[string]string{plugin: "${workspaceFolder}/x", filepath.Dir(plugin): "${workspaceFolder}/" + filepath.Base(plugin) + "/x", t.TempDir(): plugin + "/x"} {
		opts := surroundings(t, nil)
		opts.Workspace = workspace
		if servers, _ := Import(file, opts, &Names{}); len(servers) != 1 || fmt.Sprint(servers[0].Keys[1].Value) != "["+want+"]" {
			t.Errorf("a plugin in %s: %v, want %s", workspace, servers, want)
		}
	}
	if servers, problems := Import(write(t, filepath.Join(t.TempDir(), "x.json"), `{"servers": 1}`), Options{}, &Names{}); servers != nil || problems.Errors() == 0 {
		t.Errorf("an invalid file: %v, %v", servers, problems)
	}
}

// An entry that runs mcptrack attach stands for a server of another config, so it is not imported.
func TestImportOmitsAttach(t *testing.T) {
	t.Parallel()
	text := `{"mcpServers": {"a": {"command": "/bin/mcptrack-attach", "args": ["a"]}, "b": {"command": "C:\\x\\mcptrack.exe", "args": ["--quiet", "attach", "b"]},
		"c": {"command": "mcptrack", "args": ["demo-server"]}, "d": {"command": "attach"}}}`
	servers, problems := Import(write(t, filepath.Join(t.TempDir(), "mcp.json"), text), Options{}, &Names{})
	if len(servers) != 2 || servers[0].ID != "c" || servers[1].ID != "d" {
		t.Errorf("%+v, %v", servers, problems)
	}
}
