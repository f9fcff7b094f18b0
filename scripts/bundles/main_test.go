package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// packed writes a release whose programs are their names, and returns its folder.
func packed(t *testing.T) string {
	t.Helper()
	dir, args := t.TempDir(), []string{""}
	for _, system := range []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64"} {
		folder := t.TempDir()
		for _, name := range []string{"mcptrack", "mcptrack-attach"} {
			if strings.HasPrefix(system, "windows") {
				name += ".exe"
			}
			if err := os.WriteFile(filepath.Join(folder, name), []byte(system+" "+name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if system == "windows/amd64" { // as an archive of a release
			var files []file
			for _, name := range []string{"mcptrack.exe", "mcptrack-attach.exe"} {
				files = append(files, file{"mcptrack_windows_amd64/" + name, true, read(t, folder, name)})
			}
			content, err := zipped(files)
			if err != nil {
				t.Fatal(err)
			}
			folder += "/release.zip"
			if err := os.WriteFile(folder, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		args = append(args, system+"="+folder)
	}
	r, err := newRelease("v1.2.3-rc.1", args)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, names ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(names...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// An archived file is the content of a file in an archive, and whether it can be executed.
type archived struct {
	content    string
	executable bool
}

func untarred(t *testing.T, content []byte) map[string]archived {
	t.Helper()
	uncompressed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	files, r := map[string]archived{}, tar.NewReader(uncompressed)
	for {
		header, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(header.Name, "package/")] = archived{string(content), header.Mode == 0o755}
	}
}

func unzipped(t *testing.T, content []byte) map[string]archived {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]archived{}
	for _, f := range r.File {
		opened, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(opened)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = archived{string(content), f.Mode().Perm() == 0o755}
	}
	return files
}

func parsed[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPackages(t *testing.T) {
	dir := packed(t)
	for file, program := range map[string]string{
		"mcptrack-linux-arm64-1.2.3-rc.1.tgz": "linux/arm64 mcptrack", "mcptrack-win32-x64-1.2.3-rc.1.tgz": "windows/amd64 mcptrack.exe",
	} {
		files := untarred(t, read(t, dir, "npm", file))
		_, name, _ := strings.Cut(program, " ")
		if got := files["bin/"+name]; got != (archived{program, true}) {
			t.Errorf("%s: the program is %+v", file, got)
		}
	}
	m := parsed[manifest](t, untarred(t, read(t, dir, "npm/mcptrack-win32-x64-1.2.3-rc.1.tgz"))["package.json"].content)
	if m.Name != "@mcptrack/win32-x64" || m.OS[0] != "win32" || m.CPU[0] != "x64" || m.Version != "1.2.3-rc.1" {
		t.Errorf("the manifest for Windows is %+v", m)
	}
	files := untarred(t, read(t, dir, "npm/mcptrack-1.2.3-rc.1.tgz"))
	m = parsed[manifest](t, files["package.json"].content)
	if len(m.OptionalDependencies) != 4 || m.OptionalDependencies["@mcptrack/darwin-arm64"] != "1.2.3-rc.1" {
		t.Errorf("the optional dependencies are %v", m.OptionalDependencies)
	}
	for name, file := range m.Bin {
		if got := files[file]; !got.executable || !strings.Contains(got.content, "('"+name+"'") {
			t.Errorf("%s is %+v", file, got)
		}
	}
}

// The registry takes an entry only if it is valid and if the packages that it names have its name. The
// schema is a file of github.com/modelcontextprotocol/registry v1.8.9 (Apache-2.0, in part MIT).
func TestEntries(t *testing.T) {
	dir := packed(t)
	valid, err := jsonschema.NewCompiler().Compile("testdata/server.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mcptrack", "vault"} {
		content := read(t, dir, "registry", name+".json")
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if err := valid.Validate(document); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		e, bundles := parsed[entry](t, string(content)), 0
		if len(e.Description) > 100 {
			t.Errorf("%s: the description has more than 100 characters", name)
		}
		for _, p := range e.Packages {
			switch p.RegistryType {
			case "npm":
				file := strings.ReplaceAll(strings.TrimPrefix(p.Identifier, "@"), "/", "-") + "-" + p.Version + ".tgz"
				m := parsed[manifest](t, untarred(t, read(t, dir, "npm", file))["package.json"].content)
				if m.Name != p.Identifier || m.MCPName != e.Name || m.Version != e.Version {
					t.Errorf("%s: the package is %+v", name, m)
				}
			case "mcpb":
				bundles++
				sum := sha256.Sum256(read(t, dir, "mcpb", path.Base(p.Identifier)))
				if p.FileSHA256 != hex.EncodeToString(sum[:]) {
					t.Errorf("%s: the hash of %s is wrong", name, p.Identifier)
				}
			case "oci":
				if p.Identifier != "ghcr.io/mcptrack/mcptrack:1.2.3-rc.1" || p.Version != "" {
					t.Errorf("%s: the image is %+v", name, p)
				}
			default:
				t.Errorf("%s: a package of type %s", name, p.RegistryType)
			}
		}
		if bundles != 4 {
			t.Errorf("%s has %d bundles", name, bundles)
		}
	}
	invalid, err := jsonschema.UnmarshalJSON(strings.NewReader(`{"name": "vault", "description": "x", "version": "1.0.0"}`))
	if err != nil || valid.Validate(invalid) == nil {
		t.Errorf("a name without a namespace is valid, %v", err)
	}
}

func TestBundles(t *testing.T) {
	dir := packed(t)
	for file, want := range map[string]struct{ platform, program, content, argument string }{
		"mcptrack-vault_linux_amd64.mcpb":     {"linux", "server/mcptrack", "linux/amd64 mcptrack", "${user_config.folder}"},
		"mcptrack-gateway_windows_amd64.mcpb": {"win32", "server/mcptrack.exe", "windows/amd64 mcptrack.exe", "${user_config.config}"},
	} {
		files := unzipped(t, read(t, dir, "mcpb", file))
		if got := files[want.program]; got != (archived{want.content, true}) {
			t.Errorf("%s: the program is %+v", file, got)
		}
		m := parsed[struct {
			Compatibility struct{ Platforms []string }
			Server        struct {
				EntryPoint string `json:"entry_point"`
				MCPConfig  struct {
					Command string
					Args    []string
				} `json:"mcp_config"`
			}
		}](t, files["manifest.json"].content)
		args := m.Server.MCPConfig.Args
		if m.Compatibility.Platforms[0] != want.platform || m.Server.EntryPoint != want.program ||
			m.Server.MCPConfig.Command != "${__dirname}/"+want.program || args[len(args)-1] != want.argument {
			t.Errorf("%s: the manifest is %+v", file, m)
		}
	}
}

func TestEqualReleases(t *testing.T) {
	one, other := os.DirFS(packed(t)), packed(t)
	names, err := filepath.Glob(filepath.Join(other, "*", "*"))
	if err != nil || len(names) != 6+8+2 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		relative, err := filepath.Rel(other, name)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := one.Open(filepath.ToSlash(relative))
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(opened)
		_ = opened.Close()
		if err != nil || !bytes.Equal(content, read(t, name)) {
			t.Errorf("%s differs, %v", relative, err)
		}
	}
}

func TestArguments(t *testing.T) {
	for _, wrong := range [][]string{
		{"latest", "out", "linux/amd64=x"}, {"1.2", "out", "linux/amd64=x"}, {"v1.2.3", "out"}, {"v1.2.3", "out", "linux/amd64"},
		{"v1.2.3", "out", "plan9/amd64=x"}, {"v1.2.3", "out", "linux/386=x"}, {"v1.2.3", "out", "linux=x"},
	} {
		if _, err := newRelease(wrong[0], wrong[1:]); err == nil || !strings.Contains(err.Error(), usage) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
