// Bundles packs the programs of a release for those who install with npm or in a client: npm packages,
// MCP bundles (.mcpb) for Claude Desktop, and the entries of the MCP registry, which name both.
// usage: bundles -version VERSION DIR OS/ARCH=FOLDER [OS/ARCH=FOLDER ...]
// A folder contains mcptrack and mcptrack-attach for OS/ARCH, as go names them; it may be a zip archive.
// DIR gets npm, mcpb and registry, which are replaced. Equal programs
// give equal files. The npm package mcptrack depends on the packages of the platforms that are given; a
// release has all six.
package main

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	home        = "https://github.com/mcptrack/mcptrack"
	summary     = "Follows MCP servers and reports every change as it happens"
	usage       = "usage: bundles -version VERSION DIR OS/ARCH=FOLDER [OS/ARCH=FOLDER ...]"
	gatewayName = "io.github.mcptrack/mcptrack" // also the label of the container image
	vaultName   = "io.github.mcptrack/vault"
)

func main() {
	log.SetFlags(0)
	version := flag.String("version", "", "version, with or without v")
	flag.Parse()
	r, err := newRelease(*version, flag.Args())
	if err == nil {
		err = r.write(flag.Arg(0))
	}
	if err != nil {
		log.Fatal(err)
	}
}

// A release is one version of the programs, for some platforms.
type release struct {
	version   string // without v
	platforms []platform
}

// A platform is where programs run, and the folder or zip archive that contains those programs.
type platform struct{ os, arch, folder string }

var semantic = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// newRelease reads the arguments of the command line.
func newRelease(version string, args []string) (release, error) {
	r := release{version: strings.TrimPrefix(version, "v")}
	if !semantic.MatchString(r.version) {
		return r, fmt.Errorf("%s\n%q is not a version such as v1.2.3", usage, version)
	}
	if len(args) < 2 {
		return r, errors.New(usage)
	}
	for _, arg := range args[1:] {
		system, folder, ok := strings.Cut(arg, "=")
		goos, goarch, both := strings.Cut(system, "/")
		if !ok || !both || nodeOS[goos] == "" || nodeArch[goarch] == "" {
			return r, fmt.Errorf("%s\n%q is not OS/ARCH=FOLDER with linux, darwin or windows, and amd64 or arm64", usage, arg)
		}
		r.platforms = append(r.platforms, platform{goos, goarch, folder})
	}
	return r, nil
}

// The names that Node has for systems and processors.
var (
	nodeOS   = map[string]string{"linux": "linux", "darwin": "darwin", "windows": "win32"}
	nodeArch = map[string]string{"amd64": "x64", "arm64": "arm64"}
)

// node returns the name of the platform as it is in the names of npm packages.
func (p platform) node() string { return nodeOS[p.os] + "-" + nodeArch[p.arch] }

// file returns the name of a program on this platform.
func (p platform) file(program string) string {
	if p.os == "windows" {
		return program + ".exe"
	}
	return program
}

// program returns the content of a program.
func (p platform) program(name string) ([]byte, error) {
	if !strings.HasSuffix(p.folder, ".zip") {
		return os.ReadFile(filepath.Join(p.folder, p.file(name)))
	}
	archive, err := zip.OpenReader(p.folder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = archive.Close() }() // it was only read
	for _, f := range archive.File {
		if path.Base(f.Name) == p.file(name) {
			from, err := f.Open()
			if err != nil {
				return nil, err
			}
			defer func() { _ = from.Close() }()
			return io.ReadAll(from)
		}
	}
	return nil, fmt.Errorf("%s contains no %s", p.folder, p.file(name))
}

// write writes all files.
func (r release) write(dir string) error {
	for _, kind := range []string{"npm", "mcpb", "registry"} {
		if err := os.RemoveAll(filepath.Join(dir, kind)); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(dir, kind), 0o755); err != nil {
			return err
		}
	}
	if err := r.writeNPM(filepath.Join(dir, "npm")); err != nil {
		return err
	}
	bundles, err := r.writeMCPB(filepath.Join(dir, "mcpb"))
	if err != nil {
		return err
	}
	for _, e := range r.entries(bundles) {
		_, name, _ := strings.Cut(e.Name, "/")
		if err := os.WriteFile(filepath.Join(dir, "registry", name+".json"), indented(e), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// A file of an archive.
type file struct {
	name    string
	program bool // can be executed
	content []byte
}

// indented returns a value as JSON. All values here can be marshalled.
func indented(v any) []byte {
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err)
	}
	return append(out, '\n')
}

// licenses returns the files of the current folder that contain a license.
func licenses() ([]file, error) {
	names, err := filepath.Glob("LICENSE*")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var files []file
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, content: content})
	}
	return files, nil
}
