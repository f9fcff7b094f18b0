package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// packed returns the files of a release whose programs are their names.
func packed(t *testing.T) map[string]string {
	t.Helper()
	args := []string{t.TempDir()}
	for _, system := range []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64"} {
		folder, exe := t.TempDir(), ""
		if system == "windows/amd64" {
			exe = ".exe"
		}
		var files []file
		for _, name := range []string{"mcptrack" + exe, "mcptrack-attach" + exe} {
			content := []byte(system + " " + name)
			files = append(files, file{"mcptrack_windows_amd64/" + name, true, content})
			if err := os.WriteFile(filepath.Join(folder, name), content, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if exe != "" { // as an archive of a release
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
	if err := r.write(args[0]); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	err = fs.WalkDir(os.DirFS(args[0]), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(args[0], name))
		files[name] = string(content)
		return err
	})
	if err != nil || len(files) != 6+8+2 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	return files
}

// An archived file is the content of a file in an archive, and whether it can be executed.
type archived struct {
	content    string
	executable bool
}

func untarred(t *testing.T, content string) map[string]archived {
	t.Helper()
	uncompressed, err := gzip.NewReader(strings.NewReader(content))
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

func unzipped(t *testing.T, content string) map[string]archived {
	t.Helper()
	r, err := zip.NewReader(strings.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]archived{}
	for _, f := range r.File {
		content, err := fs.ReadFile(r, f.Name)
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
	release := packed(t)
	if !maps.Equal(release, packed(t)) {
		t.Error("two releases of equal programs differ")
	}
	windows := untarred(t, release["npm/mcptrack-win32-x64-1.2.3-rc.1.tgz"])
	if got := windows["bin/mcptrack.exe"]; got != (archived{"windows/amd64 mcptrack.exe", true}) {
		t.Errorf("the program for Windows is %+v", got)
	}
	m := parsed[manifest](t, windows["package.json"].content)
	if m.Name != "@mcptrack/win32-x64" || m.OS[0] != "win32" || m.CPU[0] != "x64" || m.Version != "1.2.3-rc.1" {
		t.Errorf("the manifest for Windows is %+v", m)
	}
	files := untarred(t, release["npm/mcptrack-1.2.3-rc.1.tgz"])
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
	release := packed(t)
	valid, err := jsonschema.NewCompiler().Compile("testdata/server.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mcptrack", "vault"} {
		content := release["registry/"+name+".json"]
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if err := valid.Validate(document); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		e, bundles := parsed[entry](t, content), 0
		for _, p := range e.Packages {
			switch p.RegistryType {
			case "npm":
				file := "npm/" + strings.ReplaceAll(strings.TrimPrefix(p.Identifier, "@"), "/", "-") + "-" + p.Version + ".tgz"
				m := parsed[manifest](t, untarred(t, release[file])["package.json"].content)
				if m.Name != p.Identifier || m.MCPName != e.Name || m.Version != e.Version {
					t.Errorf("%s: the package is %+v", name, m)
				}
			case "mcpb":
				bundles++
				sum := sha256.Sum256([]byte(release["mcpb/"+path.Base(p.Identifier)]))
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
}

func TestBundles(t *testing.T) {
	release := packed(t)
	for file, want := range map[string]struct{ platform, program, content, argument string }{
		"mcptrack-vault_linux_amd64.mcpb":     {"linux", "server/mcptrack", "linux/amd64 mcptrack", "${user_config.folder}"},
		"mcptrack-gateway_windows_amd64.mcpb": {"win32", "server/mcptrack.exe", "windows/amd64 mcptrack.exe", "${user_config.config}"},
	} {
		files := unzipped(t, release["mcpb/"+file])
		if got := files[want.program]; got != (archived{want.content, true}) {
			t.Errorf("%s: the program is %+v", file, got)
		}
		m := parsed[struct {
			Compatibility struct{ Platforms []string }
			Server        struct {
				MCPConfig struct {
					Command string
					Args    []string
				} `json:"mcp_config"`
			}
		}](t, files["manifest.json"].content)
		args := m.Server.MCPConfig.Args
		if m.Compatibility.Platforms[0] != want.platform ||
			m.Server.MCPConfig.Command != "${__dirname}/"+want.program || args[len(args)-1] != want.argument {
			t.Errorf("%s: the manifest is %+v", file, m)
		}
	}
}
