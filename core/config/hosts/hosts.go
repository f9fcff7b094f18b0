// Package hosts knows where the programs that use MCP servers keep their configs.
//
// It has names and paths only; core/config reads the files, and recognises their form by their
// content. Sources are the documentation of each host (November 2026).
package hosts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Host is a program that has a config with MCP servers.
type Host struct {
	Name  string // as in --host, such as "claude-code"
	Title string // the name shown to people
	Files []File // files of the project first, then the user's, each in the order in which they are tried
}

// A File is a place where a host keeps a config.
type File struct {
	Base Base
	Path string // relative to the base, with slashes; its last element may be a glob
	// Settings means that the file holds all settings of the host, so it may have no servers.
	Settings bool
	// MovedBy is an environment variable that names another folder for the file; "": there is
	// none.
	MovedBy string
}

// Base is a folder that paths are relative to.
type Base int

// The bases.
const (
	Project   Base = iota // the working directory
	Home                  // the user's home
	XDG                   // XDG_CONFIG_HOME or ~/.config, on every system
	AppConfig             // ~/.config, ~/Library/Application Support or %AppData%
)

// All returns the hosts in alphabetical order of their names.
func All() []Host {
	one := func(name, title string, files ...File) Host { return Host{name, title, files} }
	return []Host{
		one("amazon-q", "Amazon Q Developer", File{Project, ".amazonq/mcp.json", false, ""}, File{Home, ".aws/amazonq/mcp.json", false, ""}),
		one("antigravity", "Antigravity", File{Home, ".gemini/antigravity/mcp_config.json", false, ""}),
		one("claude-code", "Claude Code", File{Project, ".mcp.json", false, ""}, File{Home, ".claude.json", true, "CLAUDE_CONFIG_DIR"}),
		one("claude-desktop", "Claude Desktop", File{AppConfig, "Claude/claude_desktop_config.json", true, ""}),
		one("cline", "Cline", File{AppConfig, "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json", false, ""},
			File{Home, ".cline/data/settings/cline_mcp_settings.json", false, ""}),
		one("codex", "Codex", File{Project, ".codex/config.toml", true, ""}, File{Home, ".codex/config.toml", true, "CODEX_HOME"}),
		one("continue", "Continue", File{Project, ".continue/mcpServers/*.yaml", false, ""}, File{Project, ".continue/config.yaml", true, ""},
			File{Home, ".continue/config.yaml", true, ""}),
		one("copilot", "GitHub Copilot CLI", File{Project, ".copilot/mcp-config.json", false, ""}, File{Home, ".copilot/mcp-config.json", false, ""}),
		one("crush", "Crush", File{Project, ".crush.json", true, ""}, File{Project, "crush.json", true, ""}, File{XDG, "crush/crush.json", true, ""}),
		one("cursor", "Cursor", File{Project, ".cursor/mcp.json", false, ""}, File{Home, ".cursor/mcp.json", false, ""}),
		one("gemini", "Gemini CLI", File{Project, ".gemini/settings.json", true, ""}, File{Home, ".gemini/settings.json", true, ""}),
		one("goose", "Goose", File{XDG, "goose/config.yaml", true, ""}, File{AppConfig, "Block/goose/config/config.yaml", true, ""}),
		one("junie", "Junie", File{Project, ".junie/mcp/mcp.json", false, ""}, File{Home, ".junie/mcp/mcp.json", false, ""}),
		one("kiro", "Kiro", File{Project, ".kiro/settings/mcp.json", false, ""}, File{Home, ".kiro/settings/mcp.json", false, ""}),
		one("opencode", "opencode", File{Project, "opencode.json", true, ""}, File{Project, "opencode.jsonc", true, ""},
			File{Project, ".opencode/opencode.json", true, ""}, File{XDG, "opencode/opencode.json", true, ""}, File{XDG, "opencode/opencode.jsonc", true, ""}),
		one("qwen", "Qwen Code", File{Project, ".qwen/settings.json", true, ""}, File{Home, ".qwen/settings.json", true, ""}),
		one("roo", "Roo Code", File{Project, ".roo/mcp.json", false, ""},
			File{AppConfig, "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json", false, ""}),
		one("vscode", "VS Code", File{Project, ".vscode/mcp.json", false, ""}, File{Project, ".vscode/settings.json", true, ""},
			File{AppConfig, "Code/User/mcp.json", false, ""}, File{AppConfig, "Code/User/settings.json", true, ""}),
		one("windsurf", "Windsurf", File{Home, ".codeium/windsurf/mcp_config.json", false, ""}),
		one("zed", "Zed", File{Project, ".zed/settings.json", true, ""}, File{XDG, "zed/settings.json", true, ""}, File{AppConfig, "Zed/settings.json", true, ""}),
	}
}

// Find returns the host with the name.
func Find(name string) (Host, bool) {
	all := All()
	if i := slices.IndexFunc(all, func(h Host) bool { return h.Name == name }); i >= 0 {
		return all[i], true
	}
	return Host{}, false
}

// Names returns the names of all hosts, sorted.
func Names() []string {
	var names []string
	for _, h := range All() {
		names = append(names, h.Name)
	}
	return names
}

// IsSettings reports whether a path is that of a file with all settings of some host.
func IsSettings(path string) bool {
	path = filepath.ToSlash(path)
	for _, h := range All() {
		for _, f := range h.Files {
			if f.Settings && (path == f.Path || strings.HasSuffix(path, "/"+f.Path)) {
				return true
			}
		}
	}
	return false
}

// Folders are the folders that each Base stands for. Files of a base whose folder is "" are
// left out, except those of the project.
type Folders struct {
	Project, Home, XDG, AppConfig string
	// Moved maps the variables of File.MovedBy to their folders.
	Moved map[string]string
}

// Variables returns the names of all variables that can move files of hosts; see File.MovedBy.
func Variables() []string {
	var names []string
	for _, h := range All() {
		for _, f := range h.Files {
			if f.MovedBy != "" && !slices.Contains(names, f.MovedBy) {
				names = append(names, f.MovedBy)
			}
		}
	}
	return names
}

// Paths returns where the host may have a config: the files of its project and then those of
// the user, existing or not. A glob is replaced by the files that match it, if there are any.
func (h Host) Paths(in Folders) []string { return paths(h.Files, in) }

// UsersPaths is Paths without the files of the project.
func (h Host) UsersPaths(in Folders) []string {
	return paths(slices.DeleteFunc(slices.Clone(h.Files), func(f File) bool { return f.Base == Project }), in)
}

func paths(files []File, in Folders) []string {
	var paths []string
	for _, f := range files {
		folder := map[Base]string{Project: in.Project, Home: in.Home, XDG: in.XDG, AppConfig: in.AppConfig}[f.Base]
		if folder == "" && f.Base != Project {
			continue
		}
		path := filepath.Join(folder, filepath.FromSlash(f.Path))
		if moved := in.Moved[f.MovedBy]; moved != "" {
			path = filepath.Join(moved, filepath.Base(path))
		}
		matches, _ := filepath.Glob(path)
		if len(matches) == 0 || !strings.Contains(f.Path, "*") {
			matches = []string{path}
		}
		for _, m := range matches[:min(len(matches), maxMatches)] {
			if !slices.Contains(paths, m) {
				paths = append(paths, m)
			}
		}
	}
	return paths
}

// Siblings returns the files that a host reads together with the one of this path: the other
// matches of the same glob, at most 100, sorted.
func Siblings(path string) []string {
	for _, h := range All() {
		for _, f := range h.Files {
			dir, glob := filepath.Split(filepath.FromSlash(f.Path))
			in := filepath.Dir(path)
			matches, _ := filepath.Match(glob, filepath.Base(path))
			dir = filepath.Clean(dir)
			if !strings.Contains(glob, "*") || !matches || in != dir && !strings.HasSuffix(in, string(filepath.Separator)+dir) {
				continue
			}
			var others []string
			entries, _ := os.ReadDir(in)
			for _, e := range entries {
				if ok, _ := filepath.Match(glob, e.Name()); ok && e.Name() != filepath.Base(path) && len(others) < maxMatches {
					others = append(others, filepath.Join(in, e.Name()))
				}
			}
			return others
		}
	}
	return nil
}

// maxMatches bounds the matches of one glob.
const maxMatches = 100
