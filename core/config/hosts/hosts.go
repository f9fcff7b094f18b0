// Package hosts lists where programs that use MCP servers store their configs.
//
// It contains only names and paths; core/config reads the files and recognises their format from
// their content. The paths come from the documentation of each host (November 2026). These paths have another source:
//
//	lm-studio      ~/.cache: lmstudio-ai/lmstudio-bug-tracker#1371
//	qoder          mcp.json: stacklok/toolhive, pkg/client/config.go; in a project: datasnap-cloud/bridge
//	trae           of the user: stacklok/toolhive; CoplayDev/unity-mcp#337 and MCPForUnity's TraeCNConfigurator
//	vscode-server  microsoft/vscode#269340 and vscode-remote-release#6340; settings: hashicorp/terraform-mcp-server#95
package hosts

import (
	"os"
	slashpath "path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/suggest"
)

// A Host is a program whose config lists MCP servers.
type Host struct {
	Name  string // name accepted by --host, such as "claude-code"
	Title string // human-readable name
	Files []File // in the order in which they are tried; project files precede user files
}

// A File is one location of a host's config.
type File struct {
	Base Base
	Path string // slash-separated path relative to the base; the last element may be a glob
	// Settings means that the file contains all settings of the host, so it may not list any
	// servers.
	Settings bool
	// MovedBy is an environment variable that can specify a different folder for the file; empty if
	// there is none.
	MovedBy string
}

// Base identifies the folder to which a path is relative.
type Base int

// The base folders.
const (
	Project   Base = iota // the working directory
	Home                  // the user's home folder
	XDG                   // XDG_CONFIG_HOME or ~/.config, on every system
	AppConfig             // ~/.config, ~/Library/Application Support or %AppData%
)

// All returns all hosts, sorted by name.
func All() []Host {
	one := func(name, title string, files ...File) Host { return Host{name, title, files} }
	own := func(base Base, path string) File { return File{Base: base, Path: path} }
	settings := func(base Base, path string) File { return File{Base: base, Path: path, Settings: true} }
	inFolder := []File{own(Project, ".vscode/mcp.json"), settings(Project, ".vscode/settings.json")} // of every edition of VS Code
	return []Host{
		one("amazon-q", "Amazon Q Developer", own(Project, ".amazonq/mcp.json"), own(Home, ".aws/amazonq/mcp.json")),
		one("amp", "Amp", settings(Project, ".amp/settings.json"), settings(Project, ".amp/settings.jsonc"),
			settings(XDG, "amp/settings.json"), settings(XDG, "amp/settings.jsonc")),
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
		one("factory", "Droid", own(Project, ".factory/mcp.json"), own(Home, ".factory/mcp.json")),
		one("gemini", "Gemini CLI", settings(Project, ".gemini/settings.json"), settings(Home, ".gemini/settings.json")),
		one("goose", "Goose", settings(XDG, "goose/config.yaml"), settings(AppConfig, "Block/goose/config/config.yaml")),
		one("junie", "Junie", own(Project, ".junie/mcp/mcp.json"), own(Home, ".junie/mcp/mcp.json")),
		one("kimi", "Kimi Code", own(Project, ".kimi-code/mcp.json"), File{Home, ".kimi-code/mcp.json", false, "KIMI_CODE_HOME"},
			File{Home, ".kimi/mcp.json", false, "KIMI_SHARE_DIR"}),
		one("kiro", "Kiro", own(Project, ".kiro/settings/mcp.json"), own(Home, ".kiro/settings/mcp.json")),
		one("lm-studio", "LM Studio", own(Home, ".lmstudio/mcp.json"), own(Home, ".cache/lm-studio/mcp.json")),
		one("mistral-vibe", "Mistral Vibe", settings(Project, ".vibe/config.toml"), File{Home, ".vibe/config.toml", true, "VIBE_HOME"}),
		one("opencode", "opencode", settings(Project, "opencode.json"), settings(Project, "opencode.jsonc"),
			settings(Project, ".opencode/opencode.json"), settings(XDG, "opencode/opencode.json"), settings(XDG, "opencode/opencode.jsonc")),
		one("qoder", "Qoder", own(Project, ".qoder/mcp.json"), settings(Project, ".qoder/settings.local.json"),
			own(Home, ".qoder/mcp.json"), own(AppConfig, "Qoder/SharedClientCache/mcp.json"), settings(Home, ".qoder/settings.json")),
		one("qwen", "Qwen Code", settings(Project, ".qwen/settings.json"), settings(Home, ".qwen/settings.json")),
		one("roo", "Roo Code", own(Project, ".roo/mcp.json"),
			own(AppConfig, "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json")),
		one("trae", "Trae", own(Project, ".trae/mcp.json"), own(AppConfig, "Trae/User/mcp.json"), own(AppConfig, "Trae CN/User/mcp.json")),
		one("vscode", "VS Code", append(slices.Clone(inFolder), own(AppConfig, "Code/User/mcp.json"), settings(AppConfig, "Code/User/settings.json"))...),
		one("vscode-insiders", "VS Code Insiders", append(slices.Clone(inFolder), own(AppConfig, "Code - Insiders/User/mcp.json"),
			settings(AppConfig, "Code - Insiders/User/settings.json"))...),
		one("vscode-server", "VS Code Server", append(slices.Clone(inFolder), own(Home, ".vscode-server/data/User/mcp.json"),
			settings(Home, ".vscode-server/data/Machine/settings.json"), own(Home, ".vscode-server-insiders/data/User/mcp.json"))...),
		one("windsurf", "Windsurf", own(Home, ".codeium/windsurf/mcp_config.json"), own(Home, ".codeium/mcp_config.json")), // the latter in JetBrains
		one("zed", "Zed", settings(Project, ".zed/settings.json"), settings(XDG, "zed/settings.json"), settings(AppConfig, "Zed/settings.json")),
	}
}

// Find returns the host with the given name or title. Case, spaces, "-" and "_" do not matter.
func Find(name string) (Host, bool) {
	all, name := All(), suggest.Plain(name)
	if i := slices.IndexFunc(all, func(h Host) bool { return suggest.Plain(h.Name) == name || suggest.Plain(h.Title) == name }); i >= 0 {
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

// Owns reports whether any host stores its config at the path, judging by its last elements.
func Owns(path string) bool { return anyFile(func(f File) bool { return f.at(path) }) }

// IsSettings reports whether path is the settings file of any host.
func IsSettings(path string) bool {
	return anyFile(func(f File) bool { return f.Settings && f.at(path) })
}

func anyFile(is func(File) bool) bool {
	return slices.ContainsFunc(All(), func(h Host) bool { return slices.ContainsFunc(h.Files, is) })
}

// at reports whether a path ends with the path of the file.
func (f File) at(path string) bool {
	parts := strings.Split(filepath.ToSlash(path), "/")
	n := strings.Count(f.Path, "/") + 1
	if len(parts) < n {
		return false
	}
	ok, _ := slashpath.Match(f.Path, strings.Join(parts[len(parts)-n:], "/"))
	return ok
}

// Folders maps the bases to actual folders. If the folder of a base is empty, the base's files are
// omitted, unless they are project files.
type Folders struct {
	Project, Home, XDG, AppConfig string
	// Moved maps the environment variables in File.MovedBy to the folders they specify.
	Moved map[string]string
}

// Variables returns the names of all environment variables used in File.MovedBy.
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

// Paths returns the locations of the host's config: project files followed by user files, whether
// or not they exist. A glob that matches files is replaced by these files.
func (h Host) Paths(in Folders) []string { return paths(h.Files, in) }

// UsersPaths returns the same as Paths, without the project files.
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

// Siblings returns the files that a host reads together with the file at path: the other files that
// match the same glob, sorted, at most 100.
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

// maxMatches is the maximum number of files per glob.
const maxMatches = 100
