package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

//go:embed npm
var sources embed.FS

// A manifest is a package.json.
type manifest struct {
	Name                 string            `json:"name"`
	Version              string            `json:"version"`
	Description          string            `json:"description"`
	MCPName              string            `json:"mcpName,omitempty"` // the registry compares it with the name of its entry
	Keywords             []string          `json:"keywords,omitempty"`
	Homepage             string            `json:"homepage"`
	Bugs                 string            `json:"bugs"`
	Repository           repository        `json:"repository"`
	Bin                  map[string]string `json:"bin,omitempty"`
	Files                []string          `json:"files"`
	OS                   []string          `json:"os,omitempty"`
	CPU                  []string          `json:"cpu,omitempty"`
	Engines              map[string]string `json:"engines,omitempty"`
	Dependencies         map[string]string `json:"dependencies,omitempty"`
	OptionalDependencies map[string]string `json:"optionalDependencies,omitempty"`
	PreferUnplugged      bool              `json:"preferUnplugged,omitempty"` // Yarn must unpack programs
	PublishConfig        map[string]string `json:"publishConfig"`
}

type repository struct {
	Type   string `json:"type,omitempty"`
	URL    string `json:"url"`
	Source string `json:"source,omitempty"`
}

// writeNPM writes a package for each platform, the package of all platforms, and the package of the vault.
func (r release) writeNPM(dir string) error {
	license, err := licenses()
	if err != nil {
		return err
	}
	engines := map[string]string{"node": ">=18"}
	all := r.manifest("mcptrack", summary)
	all.MCPName = gatewayName
	all.Keywords = []string{"mcp", "model-context-protocol", "gateway", "notifications", "subscriptions", "cli"}
	all.Bin = map[string]string{"mcptrack": "mcptrack.js", "mcptrack-attach": "mcptrack-attach.js"}
	all.Files = []string{"*.js"}
	all.Engines = engines
	all.OptionalDependencies = map[string]string{}
	for _, p := range r.platforms {
		m := r.manifest("@mcptrack/"+p.node(), "The programs of mcptrack for "+p.node())
		m.Files = []string{"bin"}
		m.OS, m.CPU = []string{nodeOS[p.os]}, []string{nodeArch[p.arch]}
		m.PreferUnplugged = true
		files := []file{{name: "README.md", content: []byte("# " + m.Name + "\n\n" + m.Description + ". Install the package mcptrack.\n")}}
		for _, name := range []string{"mcptrack", "mcptrack-attach"} {
			content, err := p.program(name)
			if err != nil {
				return err
			}
			files = append(files, file{"bin/" + p.file(name), true, content})
		}
		if err := m.pack(dir, append(files, license...)); err != nil {
			return err
		}
		all.OptionalDependencies[m.Name] = r.version
	}
	if err := all.pack(dir, append(sourced("launch.js", "mcptrack.js", "mcptrack-attach.js", "README.md"), license...)); err != nil {
		return err
	}
	vault := r.manifest("@mcptrack/vault", vaultSummary)
	vault.MCPName = vaultName
	vault.Keywords = []string{"mcp", "model-context-protocol", "obsidian", "markdown", "notes"}
	vault.Bin = map[string]string{"mcptrack-vault": "vault.js"}
	vault.Files = []string{"*.js"}
	vault.Engines = engines
	vault.Dependencies = map[string]string{"mcptrack": r.version}
	files := sourced("vault.js", "vault.md")
	files[1].name = "README.md"
	return vault.pack(dir, append(files, license...))
}

// manifest returns what the manifests of all packages have.
func (r release) manifest(name, description string) manifest {
	return manifest{
		Name: name, Version: r.version, Description: description, Homepage: home, Bugs: home + "/issues",
		Repository: repository{Type: "git", URL: "git+" + home + ".git"}, PublishConfig: map[string]string{"access": "public"},
	}
}

// sourced returns files that are the same in each release.
func sourced(names ...string) []file {
	var files []file
	for _, name := range names {
		content, err := sources.ReadFile("npm/" + name)
		if err != nil {
			panic(err)
		}
		files = append(files, file{name: name, content: content})
	}
	return files
}

// pack writes the package as npm pack names it and npm publish takes it. Its times are those that npm
// gives.
func (m manifest) pack(dir string, files []file) error {
	runs := map[string]bool{}
	for _, name := range m.Bin {
		runs[name] = true
	}
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(compressed)
	for _, f := range append([]file{{name: "package.json", content: indented(m)}}, files...) {
		header := &tar.Header{
			Name: "package/" + f.name, Mode: 0o644, Size: int64(len(f.content)), Typeflag: tar.TypeReg,
			ModTime: time.Unix(499162500, 0), Format: tar.FormatUSTAR,
		}
		if f.program || runs[f.name] {
			header.Mode = 0o755
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(f.content); err != nil {
			return err
		}
	}
	if err := errors.Join(w.Close(), compressed.Close()); err != nil {
		return err
	}
	name := strings.ReplaceAll(strings.TrimPrefix(m.Name, "@"), "/", "-") + "-" + m.Version + ".tgz"
	return os.WriteFile(filepath.Join(dir, name), out.Bytes(), 0o644)
}
