package process

import (
	"maps"
	"slices"
	"strings"
)

// inherited returns the variables that a child inherits from the tracker's environment:
// locations of programs, homes and temporary files, language and time zone, what Windows
// programs need to start, and proxies. All others are withheld, above all the tracker's own
// secrets; a server that needs more names it in its config. A proxy URL may contain a password:
// it is passed on because most servers cannot work without it.
func inherited() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ",
		"TMPDIR", "TMP", "TEMP",
		"LANG", "LANGUAGE", "LC_ALL", "LC_ADDRESS", "LC_COLLATE", "LC_CTYPE",
		"LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES", "LC_MONETARY",
		"LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME",
		"XDG_CACHE_HOME", "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME", "XDG_DATA_DIRS",
		"XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
		"SystemRoot", "SystemDrive", "windir", "ComSpec", "PATHEXT", "APPDATA",
		"LOCALAPPDATA", "ProgramData", "ProgramFiles", "ProgramFiles(x86)",
		"USERPROFILE", "USERNAME", "HOMEDRIVE", "HOMEPATH", "NUMBER_OF_PROCESSORS",
		"PROCESSOR_ARCHITECTURE",
		"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
		"http_proxy", "https_proxy", "all_proxy", "no_proxy",
	}
}

// Environ builds the environment of a child: the inherited variables that lookup (such as
// os.LookupEnv) finds, and own, which takes precedence. Any key in own is allowed. The result
// is sorted, so that equal inputs give equal environments.
func Environ(lookup func(string) (string, bool), own map[string]string) []string {
	env := maps.Clone(own)
	if env == nil {
		env = make(map[string]string)
	}
	for _, key := range inherited() {
		if _, ok := env[key]; ok {
			continue
		}
		// A value like this is an exported shell function: code, not data.
		if v, ok := lookup(key); ok && !strings.HasPrefix(v, "()") {
			env[key] = v
		}
	}
	out := make([]string, 0, len(env))
	for _, key := range slices.Sorted(maps.Keys(env)) {
		out = append(out, key+"="+env[key])
	}
	return out
}
