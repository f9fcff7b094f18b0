package config

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/config/tree"
)

// Find returns the config file to use if the user named none: the value of MCPTRACK_CONFIG, even
// if that file does not exist, else the first existing file of [SearchPath]. An unreadable file
// counts, so that Load can say why it cannot be read. A host's settings file counts only if it has
// servers.
func Find(opts Options) (path string, ok bool) {
	getenv := opts.getenv()
	if named, _ := getenv("MCPTRACK_CONFIG"); named != "" {
		return named, true
	}
	return Found(opts)
}

// Found is Find without MCPTRACK_CONFIG.
func Found(opts Options) (path string, ok bool) { return firstUsable(SearchPath(opts), opts) }

// SearchPath returns the files that Find tries:
//
//	config/mcp-servers.json
//	mcp-servers.json
//	.mcp.json
//	.cursor/mcp.json
//	.vscode/mcp.json
//	the project files of all other hosts
//
// in Options.Workspace, and mcptrack/mcp-servers.json in the user's config folder
// (XDG_CONFIG_HOME or ~/.config, ~/Library/Application Support, %AppData%). Without a
// Workspace the path of a file in the working directory is relative.
func SearchPath(opts Options) []string {
	paths := projectPaths(opts.Workspace)
	if dir := opts.Folders().AppConfig; dir != "" {
		paths = append(paths, filepath.Join(dir, "mcptrack", "mcp-servers.json"))
	}
	return paths
}

// projectPaths returns the files of SearchPath in a folder.
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

// FolderOf returns the absolute folder in which [Found] tries the file at path, "" if there is none.
// It is the outermost of several: config/mcp-servers.json belongs to the folder above config.
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

// FindHost returns the config of a host: the first of its files that has servers, else the first
// that exists.
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

// hasServers reports whether a settings file has servers or cannot be read.
func hasServers(path string, opts Options) bool {
	data, _, problem := openFile(path, SizeLimit(path))
	if problem != nil {
		return true
	}
	d := newDocument(data, path)
	root, failure := d.Parse(d.Detect(path))
	if failure != nil || root.Kind != tree.Object {
		return true
	}
	workspace, _ := opts.workspace()
	r := newReader(d, opts, workspace)
	return slices.ContainsFunc(r.containers(root), func(c container) bool { return len(c.value.Members)+len(c.value.Items) > 0 })
}

// Folders returns the folders in which hosts keep the configs of the user and of the workspace.
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

// userHome returns the user's home folder; "" if it is unknown.
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

// workspace returns the absolute folder against which relative paths are resolved.
func (o Options) workspace() (string, error) {
	if filepath.IsAbs(o.Workspace) {
		return filepath.Clean(o.Workspace), nil
	}
	return filepath.Abs(o.Workspace)
}

// A HostFile is an existing config of a host.
type HostFile struct {
	Host hosts.Host
	Path string
}

// HostFiles returns the existing configs of the named hosts, or of all hosts if there are no names.
// Project files come first. A host's settings file counts only if it has servers.
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

// IsUsers reports whether a config is the user's own because of its location: mcptrack's own config
// folder, or where a host keeps its user-wide config. The author of a project cannot put a file
// there.
func IsUsers(path string, opts Options) bool {
	abs, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	folders := opts.Folders()
	if folders.AppConfig != "" && abs == filepath.Join(folders.AppConfig, "mcptrack", "mcp-servers.json") {
		return true
	}
	return slices.ContainsFunc(hosts.All(), func(h hosts.Host) bool { return slices.Contains(h.UsersPaths(folders), abs) })
}
