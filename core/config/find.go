package config

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/config/tree"
)

// Find returns the config file to use if the user did not specify one: the value of
// MCPTRACK_CONFIG, even if that file does not exist, or else the first existing file in
// [SearchPath]. An unreadable file is returned too, so that Load can report why it cannot be read.
// A host's settings file is skipped if it does not contain any servers.
func Find(opts Options) (path string, ok bool) {
	getenv := opts.getenv()
	if named, _ := getenv("MCPTRACK_CONFIG"); named != "" {
		return named, true
	}
	return Found(opts)
}

// Found does the same as Find, but ignores MCPTRACK_CONFIG.
func Found(opts Options) (path string, ok bool) { return firstUsable(SearchPath(opts), opts) }

// SearchPath returns the paths of the files that Find tries, in this order:
//
//	config/mcp-servers.json
//	mcp-servers.json
//	.mcp.json
//	.cursor/mcp.json
//	.vscode/mcp.json
//	the project files of all other hosts
//
// in Options.Workspace, and mcptrack/mcp-servers.json in the user's config folder
// (XDG_CONFIG_HOME or ~/.config, ~/Library/Application Support, %AppData%). If Workspace is empty,
// the project files are given as paths relative to the working directory.
func SearchPath(opts Options) []string {
	paths := projectPaths(opts.Workspace)
	if own := OwnPath(opts); own != "" {
		paths = append(paths, own)
	}
	return paths
}

// OwnPath returns the path of the user's own config, or "" if the user's config folder is unknown.
func OwnPath(opts Options) string {
	dir := opts.Folders().AppConfig
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "mcptrack", "mcp-servers.json")
}

// projectPaths returns the paths of SearchPath that are relative to a folder.
func projectPaths(folder string) (paths []string) {
	for _, name := range []string{"config/mcp-servers.json", "mcp-servers.json", ".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json"} {
		paths = append(paths, filepath.Join(folder, filepath.FromSlash(name)))
	}
	for _, h := range hosts.All() {
		for _, path := range h.Paths(hosts.Folders{Project: folder}) {
			if !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// FolderOf returns the absolute folder in which [Found] looks for the file at path, or an empty
// string if there is none. If several folders qualify, it returns the outermost: for
// config/mcp-servers.json, the parent folder of config.
func FolderOf(path string) (folder string) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	for dir := filepath.Dir(abs); ; dir = filepath.Dir(dir) {
		if slices.Contains(projectPaths(dir), abs) {
			folder = dir
		}
		if dir == filepath.Dir(dir) {
			return folder
		}
	}
}

// FindHost returns the config of a host: the first of its files that contains servers, or else the
// first that exists.
func FindHost(h hosts.Host, opts Options) (path string, ok bool) {
	paths := h.Paths(opts.Folders())
	if path, ok = firstUsable(paths, opts); ok {
		return path, true
	}
	if i := slices.IndexFunc(paths, isFile); i >= 0 {
		return paths[i], true
	}
	return "", false
}

func firstUsable(paths []string, opts Options) (string, bool) {
	i := slices.IndexFunc(paths, func(path string) bool {
		return isFile(path) && (!hosts.IsSettings(path) || hasServers(path, opts))
	})
	if i < 0 {
		return "", false
	}
	return paths[i], true
}

// hasServers reports whether a settings file contains servers or cannot be read.
func hasServers(path string, opts Options) bool {
	data, _, problem := openFile(path, SizeLimit(path))
	if problem != nil {
		return true
	}
	r, root := newDocument(data, path).open(opts)
	if r == nil || root.Kind != tree.Object {
		return true
	}
	return slices.ContainsFunc(r.containers(root), func(c container) bool { return len(c.value.Members)+len(c.value.Items) > 0 }) ||
		opts.AnyProject && len(r.otherProjects(root)) > 0
}

// Folders returns the folders in which hosts store the configs of the user and of the workspace.
func (o Options) Folders() hosts.Folders {
	getenv, home := o.getenv(), o.userHome()
	f := hosts.Folders{Project: o.Workspace, Home: home}
	if dir, _ := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		f.XDG = dir
	} else if home != "" {
		f.XDG = filepath.Join(home, ".config")
	}
	f.Moved = map[string]string{}
	for _, name := range hosts.Variables() {
		if dir, _ := getenv(name); filepath.IsAbs(dir) {
			f.Moved[name] = dir
		}
	}
	switch {
	case runtime.GOOS == "windows":
		f.AppConfig, _ = getenv("AppData")
	case runtime.GOOS == "darwin" && home != "":
		f.AppConfig = filepath.Join(home, "Library", "Application Support")
	case runtime.GOOS != "darwin":
		f.AppConfig = f.XDG
	}
	return f
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

func (o Options) getenv() func(string) (string, bool) {
	if o.Getenv != nil {
		return o.Getenv
	}
	return os.LookupEnv
}

// userHome returns the user's home folder, or an empty string if it is unknown.
func (o Options) userHome() string {
	if o.UserHome != "" {
		return o.UserHome
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return home
}

// workspace returns the absolute path of the folder against which relative paths are resolved.
func (o Options) workspace() (string, error) {
	if filepath.IsAbs(o.Workspace) {
		return filepath.Clean(o.Workspace), nil
	}
	return filepath.Abs(o.Workspace)
}

// A HostFile is an existing config file of a host.
type HostFile struct {
	Host hosts.Host
	Path string
}

// HostFiles returns the existing configs of the named hosts, or of all hosts if no names are given.
// Project files come first. A host's settings file is only included if it contains servers.
func HostFiles(opts Options, names ...string) []HostFile {
	var project, user []HostFile
	seen := map[string]bool{}
	for _, h := range hosts.All() {
		if len(names) > 0 && !slices.Contains(names, h.Name) {
			continue
		}
		folders := opts.Folders()
		inProject := h.Paths(hosts.Folders{Project: folders.Project})
		for _, path := range h.Paths(folders) {
			if _, usable := firstUsable([]string{path}, opts); seen[path] || !usable {
				continue
			}
			seen[path] = true
			if f := (HostFile{h, path}); slices.Contains(inProject, path) {
				project = append(project, f)
			} else {
				user = append(user, f)
			}
		}
	}
	return append(project, user...)
}

// IsUsers reports whether a config belongs to the user, judging by its location: mcptrack's own
// config folder, or a path where a host stores its user-wide config. The author of a project cannot
// place a file there.
func IsUsers(path string, opts Options) bool {
	abs, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	folders := opts.Folders()
	if abs == OwnPath(opts) {
		return true
	}
	return slices.ContainsFunc(hosts.All(), func(h hosts.Host) bool { return slices.Contains(h.UsersPaths(folders), abs) })
}
