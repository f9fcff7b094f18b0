// Package hosts knows where programs that use MCP servers keep their configs.
//
// It has only names and paths; core/config reads the files and recognises their form by their
// content. The source is the documentation of each host (November 2026).
package hosts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Host is a program whose config has MCP servers.
type Host struct {
	Name  string // as in --host, such as "claude-code"
	Title string // the name shown to people
	Files []File // in the order in which they are tried; project files come before user files
}

// A File is a location of a host's config.
type File struct {
	Base Base
	Path string // relative to the base, with slashes; its last element may be a glob
	// Settings means that the file holds all settings of the host, so it may have no servers.
	Settings bool
	// MovedBy is an environment variable that names another folder for the file; "": none.
	MovedBy string
}

// Base is the folder to which a path is relative.
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
	own := func(base Base, path string) File { return File{Base: base, Path: path} }
	settings := func(base Base, path string) File { return File{Base: base, Path: path, Settings: true} }
	return []Host{
		one("amazon-q", "Amazon Q Developer", own(Project, ".amazonq/mcp.json"), own(Home, ".aws/amazonq/mcp.json")),
		one("antigravity", "Antigravity", own(Home, ".gemini/antigravity/mcp_config.json")),
		one("claude-code", "Claude Code", own(Project, ".mcp.json"), File{Home, ".claude.json", true, "CLAUDE_CONFIG_DIR"}),
		one("claude-desktop", "Claude Desktop", settings(AppConfig, "Claude/claude_desktop_config.json")),
		one("cline", "Cline", own(AppConfig, "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
			own(Home, ".cline/data/settings/cline_mcp_settings.json")),
		one("codex", "Codex", settings(Project, ".codex/config.toml"), File{Home, ".codex/config.toml", true, "CODEX_HOME"}),
		one("continue", "Continue", own(Project, ".continue/mcpServers/*.yaml"), settings(Project, ".continue/config.yaml"),
			settings(Home, ".continue/config.yaml")),
		one("copilot", "GitHub Copilot CLI", own(Project, ".copilot/mcp-config.json"), own(Home, ".copilot/mcp-config.json")),
		one("crush", "Crush", settings(Project, ".crush.json"), settings(Project, "crush.json"), settings(XDG, "crush/crush.json")),
		one("cursor", "Cursor", own(Project, ".cursor/mcp.json"), own(Home, ".cursor/mcp.json")),
		one("gemini", "Gemini CLI", settings(Project, ".gemini/settings.json"), settings(Home, ".gemini/settings.json")),
		one("goose", "Goose", settings(XDG, "goose/config.yaml"), settings(AppConfig, "Block/goose/config/config.yaml")),
		one("junie", "Junie", own(Project, ".junie/mcp/mcp.json"), own(Home, ".junie/mcp/mcp.json")),
		one("kiro", "Kiro", own(Project, ".kiro/settings/mcp.json"), own(Home, ".kiro/settings/mcp.json")),
		one("opencode", "opencode", settings(Project, "opencode.json"), settings(Project, "opencode.jsonc"),
			settings(Project, ".opencode/opencode.json"), settings(XDG, "opencode/opencode.json"), settings(XDG, "opencode/opencode.jsonc")),
		one("qwen", "Qwen Code", settings(Project, ".qwen/settings.json"), settings(Home, ".qwen/settings.json")),
		one("roo", "Roo Code", own(Project, ".roo/mcp.json"),
			own(AppConfig, "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json")),
		one("vscode", "VS Code", own(Project, ".vscode/mcp.json"), settings(Project, ".vscode/settings.json"),
			own(AppConfig, "Code/User/mcp.json"), settings(AppConfig, "Code/User/settings.json")),
		one("windsurf", "Windsurf", own(Home, ".codeium/windsurf/mcp_config.json")),
		one("zed", "Zed", settings(Project, ".zed/settings.json"), settings(XDG, "zed/settings.json"), settings(AppConfig, "Zed/settings.json")),
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

// IsSettings reports whether a path is the settings file of some host.
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

// Folders are the folders for the bases. Files of a base whose folder is "" are left out, except
// project files.
type Folders struct {
	Project, Home, XDG, AppConfig string
	// Moved maps the variables of File.MovedBy to their folders.
	Moved map[string]string
}

// Variables returns the names of all variables in File.MovedBy.
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

// Paths returns where the host may have a config: project files and then user files, existing or not.
// A glob that matches files is replaced by them.
func (h Host) Paths(in Folders) []string { return paths(h.Files, in) }

// UsersPaths is Paths without the project files.
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

// Siblings returns the files that a host reads together with the file at path: the other matches of
// the same glob, sorted, at most 100.
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

// maxMatches is the most matches of one glob.
const maxMatches = 100
