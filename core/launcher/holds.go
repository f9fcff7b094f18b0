package launcher

import (
	"slices"
	"strings"
)

// Holds returns what a program keeps in its process for one client, such as "a browser", so that two
// clients would disturb each other; empty if nothing is known. It looks for words in the names of its
// packages, its image or its file that published servers for browsers, terminals and debuggers have (npm and
// PyPI, November 2026).
func (c *Command) Holds() string {
	names := slices.Clone(c.Packages)
	switch name := strings.ReplaceAll(c.Name, `\`, "/"); {
	case c.Kind == Image:
		names = append(names, name)
	case strings.Contains(name, "node_modules/"):
		names = append(names, name[strings.LastIndex(name, "node_modules/"):])
	default:
		names = append(names, Base(name))
	}
	for _, name := range names {
		words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9') })
		for _, word := range words {
			switch word {
			case "playwright", "puppeteer", "selenium", "browser", "browsers", "browsermcp", "browserbase", "browserbasehq", "hyperbrowser", "stagehand", "camoufox", "chrome", "devtools":
				return "a browser"
			case "terminal", "tmux", "iterm", "pty", "commander":
				return "a terminal"
			case "debugger", "gdb", "lldb", "pdb":
				return "a debugger"
			case "repl":
				return "an interpreter"
			}
		}
	}
	return ""
}
