package config

import (
	"os"
	"path/filepath"
	"runtime"
)

// Find returns the config file to use when the user named none: the value of
// MCPTRACK_CONFIG, whether or not that file exists (it was asked for by name),
// else the first that exists of
//
//	config/mcp-servers.json
//	mcp-servers.json
//	.mcp.json
//	.cursor/mcp.json
//	.vscode/mcp.json
//
// in Options.Workspace, and mcptrack/mcp-servers.json in the user's config
// folder (XDG_CONFIG_HOME or ~/.config, ~/Library/Application Support, %AppData%).
// Without a Workspace the path of a file in the working directory is relative.
// A file that exists but cannot be read is taken, so that Load can say why.
func Find(opts Options) (path string, ok bool) {
	getenv := opts.getenv()
	if named, _ := getenv("MCPTRACK_CONFIG"); named != "" {
		return named, true
	}
	for _, name := range []string{
		"config/mcp-servers.json",
		"mcp-servers.json",
		".mcp.json",
		".cursor/mcp.json",
		".vscode/mcp.json",
	} {
		if path := filepath.Join(opts.Workspace, filepath.FromSlash(name)); isFile(path) {
			return path, true
		}
	}
	if dir := userConfigDir(getenv, opts.userHome()); dir != "" {
		if path := filepath.Join(dir, "mcptrack", "mcp-servers.json"); isFile(path) {
			return path, true
		}
	}
	return "", false
}

// userConfigDir is os.UserConfigDir over the environment of the options.
func userConfigDir(getenv func(string) (string, bool), home string) string {
	switch runtime.GOOS {
	case "windows":
		dir, _ := getenv("AppData")
		return dir
	case "darwin", "ios":
		if home == "" {
			return ""
		}
		return filepath.Join(home, "Library", "Application Support")
	}
	if dir, _ := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if home == "" {
		return ""
	}
	return filepath.Join(home, ".config")
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

// userHome returns the home folder, or "" if there is none.
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

// workspace returns the absolute folder that relative paths are relative to.
func (o Options) workspace() (string, error) {
	if filepath.IsAbs(o.Workspace) {
		return filepath.Clean(o.Workspace), nil
	}
	return filepath.Abs(o.Workspace)
}
