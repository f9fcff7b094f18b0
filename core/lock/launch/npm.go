package launch

import (
	"cmp"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/config/tree"
)

// npm resolves specifications of packages that npm, pnpm, yarn, bun or deno runs.
func (r *resolver) npm(specs []string) []Package {
	var out []Package
	for _, spec := range specs {
		p, folder := npmSpec(spec)
		var found Package
		where := "npm's cache"
		switch r.command.Tool {
		case "pnpm":
			found, where = r.pnpmCache(p, folder), "pnpm's cache"
		case "yarn", "bun", "deno":
			where = "a cache that mcptrack reads"
		default:
			found = r.npmInstalled(p, folder, specs)
		}
		out = append(out, r.known(p, found, where))
	}
	return out
}

// npmSpec parses the specification of a package, and returns the folder in node_modules that it is
// installed in, which is empty for a specification that does not name the package.
func npmSpec(spec string) (p Package, folder string) {
	from := 0
	if strings.HasPrefix(spec, "@") {
		from = 1
	}
	name, requested := spec, ""
	if i := strings.IndexByte(spec[from:], '@'); i >= 0 {
		name, requested = spec[:from+i], spec[from+i+1:]
	}
	if !isNPMName(name) { // an address of a Git repository or archive, or a folder
		return Package{Type: NPM, Name: credential.Mask(spec, credential.FindURL(spec))}, ""
	}
	if alias, ok := strings.CutPrefix(requested, "npm:"); ok {
		p, _ = npmSpec(alias)
		return p, name
	}
	return Package{Type: NPM, Name: name, Requested: credential.Mask(requested, credential.FindURL(requested))}, name
}

func isNPMName(name string) bool {
	return len(name) <= 214 && regexp.MustCompile(`^(@[A-Za-z0-9~_-][A-Za-z0-9._~-]*/)?[A-Za-z0-9~_-][A-Za-z0-9._~-]*$`).MatchString(name)
}

// npmInstalled returns what npm exec runs: the package in the project's node_modules, or else the one
// that is installed globally, if its version is the requested one or none is requested; or else the
// one that npx has installed in its cache. If only the project has the package, it is returned for
// any request, because npm accepts it for a range.
func (r *resolver) npmInstalled(p Package, folder string, specs []string) Package {
	local, isLocal := Package{}, false
	if folder != "" {
		local, isLocal = r.npmLocal(folder)
	}
	if isLocal && (p.Requested == "" || exactly(p.Requested) == local.Version) {
		return local
	}
	if !r.command.Has("-p", "--package") && folder != "" {
		if global, ok := r.npmGlobal(folder); ok && (p.Requested == "" || exactly(p.Requested) == global.Version) {
			return global
		}
	}
	if dir := r.npxFolder(specs); dir != "" {
		if folder == "" && len(specs) == 1 {
			folder = onlyDependency(dir)
		}
		for _, lock := range []string{"node_modules/.package-lock.json", "package-lock.json"} {
			if found, ok := npmLocked(filepath.Join(dir, lock), folder); ok {
				return found
			}
		}
	}
	return local
}

// npmLocal returns a package of the project that contains the working directory, which is for npm
// the nearest folder with a package.json or node_modules.
func (r *resolver) npmLocal(folder string) (Package, bool) {
	for dir := r.dir; ; dir = filepath.Dir(dir) {
		_, err := os.Stat(filepath.Join(dir, "package.json"))
		info, noModules := os.Stat(filepath.Join(dir, "node_modules"))
		if err == nil || noModules == nil && info.IsDir() {
			return npmLocked(filepath.Join(dir, "node_modules", ".package-lock.json"), folder)
		}
		if dir == filepath.Dir(dir) {
			return Package{}, false
		}
	}
}

// npmLocked returns the package that a lock file of npm has in a folder of node_modules.
func npmLocked(file, folder string) (p Package, ok bool) {
	var lock struct {
		Packages map[string]struct{ Name, Version, Resolved, Integrity string }
	}
	text, err := readFile(file)
	if err != nil || folder == "" || json.Unmarshal(text, &lock) != nil {
		return p, false
	}
	found, ok := lock.Packages["node_modules/"+folder]
	if !ok {
		return p, false
	}
	p = Package{Type: NPM, Name: cmp.Or(found.Name, folder), Version: found.Version, Integrity: found.Integrity}
	if address, commit, isGit := strings.Cut(found.Resolved, "#"); isGit && p.Integrity == "" && strings.HasPrefix(address, "git") {
		p.Integrity = "git:" + commit
	}
	return p, true
}

// npxFolder returns the folder in which npx has installed exactly these packages, or an empty
// string. Its name is the hash of the specifications, which npm sorts by the rules of English; the
// manifest confirms it. Several packages are searched by their manifests instead.
func (r *resolver) npxFolder(specs []string) string {
	cache := filepath.Join(r.npmCache(), "_npx")
	sum := sha512.Sum512([]byte(strings.Join(specs, "\n")))
	names := []string{hex.EncodeToString(sum[:])[:16]}
	if len(specs) > 1 {
		for _, e := range entries(cache) {
			names = append(names, e.Name())
		}
	}
	want := slices.Sorted(slices.Values(specs))
	for _, name := range names {
		if r.ctx.Err() != nil {
			return ""
		}
		var manifest struct {
			NPX struct{ Packages []string } `json:"_npx"`
		}
		dir := filepath.Join(cache, name)
		text, err := readFile(filepath.Join(dir, "package.json"))
		if err == nil && json.Unmarshal(text, &manifest) == nil && slices.Equal(slices.Sorted(slices.Values(manifest.NPX.Packages)), want) {
			return dir
		}
	}
	return ""
}

// npmGlobal returns a package that is installed globally: under the configured prefix, or where Node.js
// is. npm does not record the integrity of these packages.
func (r *resolver) npmGlobal(folder string) (Package, bool) {
	prefix := r.npmSetting("prefix")
	if prefix == "" {
		for _, dir := range filepath.SplitList(r.getenv("PATH")) {
			if node, err := filepath.EvalSymlinks(filepath.Join(dir, "node")); err == nil && filepath.IsAbs(dir) {
				prefix = filepath.Dir(filepath.Dir(node))
				break
			}
		}
	}
	modules := filepath.Join(r.path(prefix), "lib", "node_modules")
	if runtime.GOOS == "windows" {
		modules = filepath.Join(cmp.Or(prefix, filepath.Join(r.getenv("APPDATA"), "npm")), "node_modules")
	} else if prefix == "" {
		return Package{}, false
	}
	version := manifestVersion(filepath.Join(modules, filepath.FromSlash(folder)))
	return Package{Type: NPM, Name: folder, Version: version}, version != ""
}

// manifestVersion returns the version of the package in a folder, or an empty string.
func manifestVersion(dir string) string {
	var manifest struct{ Version string }
	text, err := readFile(filepath.Join(dir, "package.json"))
	if err != nil || json.Unmarshal(text, &manifest) != nil {
		return ""
	}
	return manifest.Version
}

// npmSetting returns a path in npm's settings: from a flag, the environment or the user's .npmrc, or an
// empty string.
func (r *resolver) npmSetting(name string) string {
	value := cmp.Or(r.command.Value("--"+name), r.own("npm_config_"+name), r.own("NPM_CONFIG_"+strings.ToUpper(name)))
	if text, err := readFile(filepath.Join(r.home(), ".npmrc")); err == nil && value == "" {
		for line := range strings.Lines(string(text)) {
			if key, after, _ := strings.Cut(line, "="); strings.TrimSpace(key) == name {
				value = strings.NewReplacer("${HOME}", r.home(), "~", r.home()).Replace(strings.Trim(after, " \t\r\n\"'"))
			}
		}
	}
	return value
}

// npmCache returns the folder of npm's cache.
func (r *resolver) npmCache() string {
	switch dir := r.npmSetting("cache"); {
	case dir != "":
		return r.path(dir)
	case runtime.GOOS == "windows":
		return filepath.Join(r.localData(), "npm-cache")
	}
	return filepath.Join(r.home(), ".npm")
}

// dependencies returns the dependencies in the manifest of dir.
func dependencies(dir string) map[string]string {
	var manifest struct{ Dependencies map[string]string }
	text, err := readFile(filepath.Join(dir, "package.json"))
	if err != nil || json.Unmarshal(text, &manifest) != nil {
		return nil
	}
	return manifest.Dependencies
}

func onlyDependency(dir string) string {
	all := dependencies(dir)
	if len(all) != 1 {
		return ""
	}
	for name := range all {
		return name
	}
	return ""
}

// pnpmCache returns the package that pnpm dlx has installed last for a request. The names of its
// folders depend on pnpm's settings, so all are searched.
func (r *resolver) pnpmCache(p Package, folder string) (found Package) {
	root := r.command.Value("--cache-dir")
	switch {
	case root != "":
		root = r.path(root)
	case r.getenv("XDG_CACHE_HOME") != "":
		root = filepath.Join(r.getenv("XDG_CACHE_HOME"), "pnpm")
	case runtime.GOOS == "windows":
		root = filepath.Join(r.localData(), "pnpm-cache")
	case runtime.GOOS == "darwin":
		root = filepath.Join(r.home(), "Library", "Caches", "pnpm")
	default:
		root = filepath.Join(r.home(), ".cache", "pnpm")
	}
	if folder == "" {
		return found
	}
	var newest time.Time
	for _, e := range entries(filepath.Join(root, "dlx")) {
		dir := filepath.Join(root, "dlx", e.Name(), "pkg")
		info, err := os.Stat(dir)
		if err != nil || r.ctx.Err() != nil || found.Name != "" && !info.ModTime().After(newest) {
			continue
		}
		requested, ok := dependencies(dir)[folder]
		version := manifestVersion(filepath.Join(dir, "node_modules", filepath.FromSlash(folder)))
		if !ok || version == "" || p.Requested != "" && requested != p.Requested && version != exactly(p.Requested) {
			continue
		}
		newest, found = info.ModTime(), Package{Type: NPM, Name: p.Name, Version: version}
		found.Integrity = pnpmIntegrity(filepath.Join(dir, "pnpm-lock.yaml"), p.Name+"@"+version)
	}
	return found
}

func pnpmIntegrity(file, key string) string {
	text, err := readFile(file)
	if err != nil {
		return ""
	}
	root, failure := tree.NewSource(text).Parse(tree.YAML)
	if failure != nil {
		return ""
	}
	for _, name := range []string{"packages", key, "resolution", "integrity"} {
		m := root.Get(name)
		if m == nil {
			return ""
		}
		root = m.Value
	}
	return root.Text
}

// owner returns the package in whose folder of node_modules a file lies, which symbolic links are
// resolved for: node_modules/.bin has links to programs.
func owner(path string) (Package, bool) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	path = filepath.ToSlash(path)
	i := strings.LastIndex(path, "/node_modules/")
	if i < 0 {
		return Package{}, false
	}
	parts := strings.SplitN(path[i+len("/node_modules/"):], "/", 3)
	folder := parts[0]
	if strings.HasPrefix(folder, "@") && len(parts) > 1 {
		folder += "/" + parts[1]
	}
	return npmLocked(filepath.FromSlash(path[:i]+"/node_modules/.package-lock.json"), folder)
}
