package launch

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/config/credential"
)

// python resolves specifications of packages that uv or pipx runs, and then those that flags add to
// the environment.
func (r *resolver) python(specs []string) []Package {
	var out []Package
	added := len(specs)
	for _, f := range r.command.Flags {
		if f.Name == "--with" || f.Name == "-w" && r.command.Tool != "pipx" {
			specs = append(slices.Clip(specs), strings.Split(f.Value, ",")...)
		}
	}
	for i, spec := range specs {
		p := pythonSpec(strings.TrimSpace(spec))
		var found Package
		where := "uv's cache"
		if r.command.Tool == "pipx" {
			where = "pipx's cache"
		}
		if isPythonName(p.Name) {
			found = r.pythonInstalled(p, i < added)
		}
		out = append(out, r.known(p, found, where))
	}
	return out
}

// pythonSpec parses a requirement: NAME, NAME@VERSION as uvx accepts it, NAME[EXTRA]==VERSION,
// NAME @ URL, or an address or folder alone. The name is normalized.
func pythonSpec(spec string) Package {
	mask := func(s string) string { return credential.Mask(s, credential.FindURL(s)) }
	end := strings.IndexAny(spec, "[<>=!~@; (")
	if end < 0 {
		end = len(spec)
	}
	if name := spec[:end]; isPythonName(name) {
		requested := strings.TrimSpace(spec[end:])
		if strings.HasPrefix(requested, "[") {
			_, requested, _ = strings.Cut(requested, "]")
		}
		requested = strings.TrimSpace(strings.TrimPrefix(requested, "@"))
		return Package{Type: PyPI, Name: normalized(name), Requested: mask(requested)}
	}
	return Package{Type: PyPI, Name: mask(spec)}
}

func isPythonName(name string) bool {
	return len(name) <= 214 && regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`).MatchString(name)
}

// normalized returns the name of a package as PyPI compares it.
func normalized(name string) string {
	return strings.ToLower(regexp.MustCompile(`[-_.]+`).ReplaceAllString(name, "-"))
}

// pythonInstalled returns the package in the environments of the tool: for uv, a tool that is
// installed comes first; of the environments that were made for single runs, the newest that has the package
// in the requested version counts, because their names do not tell the request.
func (r *resolver) pythonInstalled(p Package, tool bool) (found Package) {
	var newest time.Time
	version := exactly(strings.TrimPrefix(p.Requested, "=="))
	for _, env := range r.environments(p, tool) {
		if r.ctx.Err() != nil {
			break
		}
		at, err := os.Stat(env.dir)
		if err != nil || found.Name != "" && !at.ModTime().After(newest) {
			continue
		}
		if got, ok := distribution(env.dir, p.Name); ok && (version == "" || got.Version == version) {
			if newest, found = at.ModTime(), got; env.first {
				break
			}
		}
	}
	return found
}

// An environment is a folder with installed packages.
type environment struct {
	dir   string
	first bool // it is used if it has the package
}

func (r *resolver) environments(p Package, tool bool) (all []environment) {
	home := r.home()
	data := cmp.Or(r.getenv("XDG_DATA_HOME"), filepath.Join(home, ".local", "share"))
	if r.command.Tool == "pipx" {
		cache := filepath.Join(cmp.Or(r.own("PIPX_HOME"), filepath.Join(data, "pipx")), ".cache")
		for _, e := range entries(cache) {
			all = append(all, environment{dir: filepath.Join(cache, e.Name())})
		}
		return all
	}
	tools, cache := filepath.Join(data, "uv", "tools"), filepath.Join(cmp.Or(r.getenv("XDG_CACHE_HOME"), filepath.Join(home, ".cache")), "uv")
	if runtime.GOOS == "windows" {
		roaming := cmp.Or(r.getenv("APPDATA"), filepath.Join(home, "AppData", "Roaming"))
		tools, cache = filepath.Join(roaming, "uv", "tools"), filepath.Join(r.localData(), "uv", "cache")
	}
	tools, cache = cmp.Or(r.own("UV_TOOL_DIR"), tools), cmp.Or(r.command.Value("--cache-dir"), r.own("UV_CACHE_DIR"), cache)
	if tool && !r.command.Has("--isolated") {
		all = append(all, environment{filepath.Join(r.path(tools), p.Name), true})
	}
	for _, bucket := range entries(r.path(cache)) {
		if !strings.HasPrefix(bucket.Name(), "environments-") {
			continue
		}
		dir := filepath.Join(r.path(cache), bucket.Name())
		for _, interpreter := range entries(dir) {
			for _, e := range entries(filepath.Join(dir, interpreter.Name())) {
				if len(all) < maxEntries {
					all = append(all, environment{dir: filepath.Join(dir, interpreter.Name(), e.Name())})
				}
			}
		}
	}
	return all
}

// installed returns the package with the name of a program or module in the virtual environment that
// contains a program, such as .venv/bin/server.
func (r *resolver) installed(program, name string) (Package, bool) {
	env := filepath.Dir(filepath.Dir(r.path(program)))
	if _, err := os.Stat(filepath.Join(env, "pyvenv.cfg")); err != nil || !strings.ContainsAny(program, `/\`) {
		return Package{}, false
	}
	name, _, _ = strings.Cut(name, ".")
	return distribution(env, normalized(name))
}

// distribution returns a package that is installed in an environment.
func distribution(env, name string) (Package, bool) {
	places := []string{filepath.Join(env, "Lib", "site-packages")}
	for _, e := range entries(filepath.Join(env, "lib")) {
		if strings.HasPrefix(e.Name(), "python") || strings.HasPrefix(e.Name(), "pypy") {
			places = append(places, filepath.Join(env, "lib", e.Name(), "site-packages"))
		}
	}
	for _, place := range places {
		for _, e := range entries(place) {
			stem, ok := strings.CutSuffix(e.Name(), ".dist-info")
			found, version, _ := strings.Cut(stem, "-")
			if ok && normalized(found) == name {
				return Package{Type: PyPI, Name: name, Version: version, Integrity: installedContent(filepath.Join(place, e.Name()))}, true
			}
		}
	}
	return Package{}, false
}

// installedContent identifies the content of an installed package: the commit if it comes from a Git
// repository, or else the hash of the names and hashes of its files as recorded at its installation,
// without those that depend on the machine or the installer. It does not read the files themselves. A
// package with compiled files has other content on other systems, so nothing identifies it.
func installedContent(info string) string {
	var direct struct {
		VCS struct {
			Commit string `json:"commit_id"`
		} `json:"vcs_info"`
	}
	if text, err := readFile(filepath.Join(info, "direct_url.json")); err == nil && json.Unmarshal(text, &direct) == nil && direct.VCS.Commit != "" {
		return "git:" + direct.VCS.Commit
	}
	wheel, _ := readFile(filepath.Join(info, "WHEEL")) // absent for some installers
	record, err := readFile(filepath.Join(info, "RECORD"))
	if err != nil || strings.Contains(string(wheel), "Root-Is-Purelib: false") {
		return ""
	}
	var kept []string
	for line := range strings.Lines(string(record)) { // PATH,HASH,SIZE
		line = strings.TrimRight(line, "\r\n")
		file := line
		for range 2 {
			if i := strings.LastIndexByte(file, ','); i >= 0 {
				file = file[:i]
			}
		}
		byInstaller := strings.Contains(file, ".dist-info/") && slices.Contains([]string{"INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json", "uv_build.json"}, path.Base(file))
		if file != "" && !strings.HasPrefix(file, "..") && !path.IsAbs(file) && !strings.HasSuffix(file, ".pyc") && !byInstaller {
			kept = append(kept, line)
		}
	}
	if len(kept) == 0 {
		return ""
	}
	slices.Sort(kept)
	sum := sha256.Sum256([]byte(strings.Join(kept, "\n")))
	return "record-sha256:" + hex.EncodeToString(sum[:])
}
