// Package launch describes how a configured server is started or reached, for the lock: its command
// or URL without secrets, and the packages and files that the command runs, as far as the machine
// already has them.
//
// The description is the same on all machines that have the same config and packages: it contains
// the command, arguments, working directory and URL as they are written in the config, with the
// references to variables, and only the names of environment variables and headers.
//
// The package reads files: the lock files of npm, npx and pnpm, the metadata of installed Python
// packages, and scripts. It executes nothing and uses no network. It reads at most [MaxFile] bytes
// of a file and 10,000 entries of a folder. Files in the caches are written by package managers, but
// are treated as hostile.
package launch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/launcher"
	"github.com/mcptrack/mcptrack/core/printable"
)

// MaxFile is the maximum size, in bytes, of a file that is read or hashed.
const MaxFile = 32 << 20

// A Launch describes how a server is started or reached. Its JSON form is part of the lock file.
type Launch struct {
	Transport config.Transport `json:"transport"`
	// Command, Args, Cwd and URL are as written in the config. Credentials are replaced by
	// "[secret]". The URL has no user info and no fragment.
	Command string   `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	Cwd     string   `json:"cwd,omitempty"` // empty if the config does not set it
	URL     string   `json:"url,omitempty"`
	Env     []string `json:"env,omitempty"`     // names of environment variables, sorted
	Headers []string `json:"headers,omitempty"` // names of HTTP headers, sorted
	// Packages are those that the command line selects, in its order.
	Packages []Package `json:"packages,omitempty"`
	File     *File     `json:"file,omitempty"` // the script or program on the command line
}

// A Package is a package that the command runs.
type Package struct {
	Type Type   `json:"type"`
	Name string `json:"name"`
	// Requested is the version, range, tag or address on the command line; empty if there is none.
	Requested string `json:"requested,omitempty"`
	// Version is the version that this machine has; empty if it is not known.
	Version string `json:"version,omitempty"`
	// Integrity identifies the content, if it is known:
	//	npm   the integrity of the tarball as npm records it ("sha512-…"), or "git:" and the commit
	//	pypi  "record-sha256:" and the SHA-256 of the installed files' names and hashes, or "git:" and the commit
	//	oci   the digest of the image ("sha256:…")
	Integrity string `json:"integrity,omitempty"`
}

// A Type is a kind of package.
type Type string

// The types, as in package URLs (purl).
const (
	NPM  Type = "npm"
	PyPI Type = "pypi"
	OCI  Type = "oci"
)

// A File is a script or program.
type File struct {
	// Path is relative to the working directory, with slashes; only the name if it lies elsewhere.
	Path   string `json:"path"`
	SHA256 string `json:"sha256"` // in lower-case hexadecimal digits
}

// A Machine tells where package managers store what they have installed.
type Machine struct {
	Home string // the home folder of the user
	// Getenv returns the environment variables that servers inherit (see package process), such as
	// XDG_CACHE_HOME; nil means that there are none.
	Getenv func(string) string

	hashes *hashes
}

// Remembering returns the machine with a memory for hashes, for one run of a command: if several
// servers run the same file, Of reads it again only if it was replaced or modified in the meantime.
func (m Machine) Remembering() Machine {
	m.hashes = &hashes{files: map[string]hashed{}}
	return m
}

// Of describes how a server is started or reached. The problems say in a clause each what could not
// be determined, such as the version of a package that has never been run; they are printable and
// contain no secrets. If ctx ends, the rest is not determined.
func Of(ctx context.Context, srv config.Server, m Machine) (l Launch, problems []string) {
	l = written(srv)
	if err := srv.Unconfigured(); err != nil {
		return l, []string{printable.Reason(err, 300)}
	}
	if srv.Transport != config.TransportStdio || srv.Command == "" {
		return l, nil
	}
	c := launcher.Parse(append([]string{srv.Command}, srv.Args...))
	special := ";&|<>()$`\"'*?\n"
	if !strings.EqualFold(launcher.Base(srv.Command), "cmd") {
		special += `\`
	}
	if strings.ContainsAny(c.Script, special) {
		return l, []string{"the shell command is not parsed, so what it runs is not known"}
	}
	r := resolver{ctx: ctx, machine: m, server: srv, command: c, dir: srv.Dir}
	r.changeDir()
	r.resolve(&l)
	return l, r.problems
}

// written describes a server by its config only.
func written(srv config.Server) Launch {
	l := Launch{
		Transport: srv.Transport,
		Env:       slices.Sorted(maps.Keys(srv.Env)),
		Headers:   slices.Sorted(maps.Keys(srv.Headers)),
	}
	words, address, dir := srv.CommandWords(), srv.Endpoint(), srv.Dir
	if srv.Intent != nil {
		if command, args, ok := srv.Intent.Command(); ok {
			words = append([]string{credential.Mask(command, credential.Find("", command))}, credential.MaskArgs(args)...)
		}
		address, dir = withoutUser(srv.Intent.URL()), srv.Intent.Dir()
	}
	if srv.Transport != config.TransportStdio {
		l.URL = address
		return l
	}
	l.Cwd = dir
	if len(words) > 0 {
		l.Command, l.Args = words[0], words[1:]
	}
	return l
}

// withoutUser masks the credentials in a URL and removes its user info and fragment. The URL may
// contain references, with which it cannot be parsed.
func withoutUser(address string) string {
	address, _, _ = strings.Cut(address, "#")
	address = credential.Mask(address, credential.FindURL(address))
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return address
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	return scheme + "://" + rest[strings.LastIndexByte(rest[:end], '@')+1:]
}

// A resolver determines what one command runs.
type resolver struct {
	ctx      context.Context
	machine  Machine
	server   config.Server
	command  launcher.Command
	dir      string // the working directory, absolute
	problems []string
}

func (r *resolver) problem(format string, args ...any) {
	r.problems = append(r.problems, printable.Line(fmt.Sprintf(format, args...), 300))
}

// own returns an environment variable that the config sets for the server. Servers do not inherit
// the variables that are asked for with own, such as UV_CACHE_DIR.
func (r *resolver) own(name string) string { return r.server.Env[name].Reveal() }

// getenv returns an environment variable that the config sets or that the server inherits.
func (r *resolver) getenv(name string) string {
	if v, ok := r.server.Env[name]; ok || r.machine.Getenv == nil {
		return v.Reveal()
	}
	return r.machine.Getenv(name)
}

func (r *resolver) home() string { return cmp.Or(r.own("HOME"), r.machine.Home) }

// localData returns the folder for caches on Windows.
func (r *resolver) localData() string {
	return cmp.Or(r.getenv("LOCALAPPDATA"), filepath.Join(r.home(), "AppData", "Local"))
}

// changeDir follows the flags of launchers that change the working directory.
func (r *resolver) changeDir() {
	flags := map[string][]string{"npm": {"--prefix", "-C"}, "pnpm": {"-C", "--dir"}, "bun": {"--cwd"}, "yarn": {"--cwd"}, "uv": {"--directory"}, "python": {"--directory"}}
	if dir := r.command.Value(flags[r.command.Tool]...); dir != "" {
		r.dir = r.path(dir)
	}
}

// path returns the absolute path of a file that the command line names.
func (r *resolver) path(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(r.dir, name)
}

func (r *resolver) resolve(l *Launch) {
	c := r.command
	switch c.Kind {
	case launcher.NPM:
		l.Packages = r.npm(c.Packages)
		r.scriptArgument(l)
	case launcher.PyPI:
		l.Packages = r.python(c.Packages)
		r.scriptArgument(l)
	case launcher.Image:
		if c.Name != "" {
			p := image(c.Name)
			l.Packages = []Package{p}
			if p.Integrity == "" {
				r.problem("the image %s is named without a digest, so its content is not known", p.Name)
			}
		}
	case launcher.File, launcher.Module:
		switch c.Tool {
		case "python", "uv":
			l.Packages = r.python(c.Packages)
		default:
			l.Packages = r.npm(c.Packages)
		}
		r.script(l)
	case launcher.Remote:
		r.problem("the script is read from the network when the server starts, so its content is not known")
	case launcher.Program:
		if c.Tool == "uv" {
			l.Packages = r.python(nil)
		}
		r.scriptArgument(l)
		r.program(l)
	}
	if c.Name == "" {
		r.problem("the command line does not say what is run")
	}
}

// Named returns the package or image that a command line runs, as it names it. It looks at no file. ok is
// false if the command line names none.
func Named(args []string) (p Package, ok bool) {
	switch c := launcher.Parse(args); {
	case c.Kind == launcher.Image && c.Name != "":
		return image(c.Name), true
	case c.Kind == launcher.NPM && len(c.Packages) > 0:
		p, _ = npmSpec(c.Packages[0])
		return p, true
	case c.Kind == launcher.PyPI && len(c.Packages) > 0:
		return pythonSpec(c.Packages[0]), true
	}
	return p, false
}

// image parses the name of a container image: NAME[:TAG][@DIGEST].
func image(ref string) Package {
	p := Package{Type: OCI}
	p.Name, p.Integrity, _ = strings.Cut(ref, "@")
	if i := strings.LastIndexByte(p.Name, ':'); i > strings.LastIndexByte(p.Name, '/') { // a port precedes a slash
		p.Name, p.Requested = p.Name[:i], p.Name[i+1:]
	}
	return p
}

// exactly returns a version that is requested without a range or tag, or an empty string.
func exactly(requested string) string {
	version := strings.TrimPrefix(strings.TrimPrefix(requested, "="), "v")
	if strings.Count(version, ".") < 2 || version[0] < '0' || version[0] > '9' || strings.ContainsAny(version, " <>=~^*|xX") {
		return ""
	}
	return version
}

// known adds what was found about a package, or the problem that nothing was found.
func (r *resolver) known(p Package, found Package, where string) Package {
	p.Version, p.Integrity = cmp.Or(found.Version, exactly(p.Requested)), found.Integrity
	switch {
	case p.Version == "" && p.Integrity == "":
		r.problem("the package %s is not in %s, so its version and content are not known", p.Name, where)
	case p.Integrity == "":
		r.problem("the content of the package %s is not known", p.Name)
	}
	return p
}
