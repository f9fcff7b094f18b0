// Mcptrack-image makes a container image of the programs of a release, for several platforms, without a
// container engine: an OCI layout, or with -push an image in a registry. It is built from nothing: the
// programs, root certificates, and folders. Two images of equal programs are the same.
// usage: mcptrack-image -version VERSION -commit COMMIT -date TIME [-push REF,REF] LAYOUT ARCH=FOLDER...
// It prints the digest of the index. It uses the logins of docker login.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	home  = "https://github.com/mcptrack/mcptrack"
	state = "/var/lib/mcptrack"
)

type release struct {
	version, commit string
	date            time.Time
}

func main() {
	log.SetFlags(0)
	var r release
	flag.StringVar(&r.version, "version", "", "version")
	flag.StringVar(&r.commit, "commit", "", "commit")
	date := flag.String("date", "", "time of the commit, as in RFC 3339")
	push := flag.String("push", "", "also push the image to these references, separated by commas")
	flag.Parse()
	var err error
	if r.date, err = time.Parse(time.RFC3339, *date); err != nil || r.version == "" || r.commit == "" || flag.NArg() < 2 {
		log.Fatal("usage: mcptrack-image -version VERSION -commit COMMIT -date TIME [-push REF,REF] LAYOUT ARCH=FOLDER...")
	}
	index, err := r.index(flag.Args()[1:])
	if err == nil {
		err = write(index, flag.Arg(0), *push)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// write stores the index in a folder and in registries, and prints its digest.
func write(index v1.ImageIndex, folder, push string) error {
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "latest"})); err != nil {
		return err
	}
	for ref := range strings.SplitSeq(push, ",") {
		if ref == "" {
			continue
		}
		to, err := name.ParseReference(ref)
		if err != nil {
			return err
		}
		if err := remote.WriteIndex(to, index, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return err
		}
	}
	digest, err := index.Digest()
	if err == nil {
		fmt.Println(digest)
	}
	return err
}

// labels returns the labels of the image specification, and the name by which the MCP registry checks that the
// image and the entry belong together.
func (r release) labels() map[string]string {
	return map[string]string{
		"io.modelcontextprotocol.server.name":  "io.github.mcptrack/mcptrack",
		"org.opencontainers.image.title":       "mcptrack",
		"org.opencontainers.image.description": "Follows MCP servers and reports every change as it happens",
		"org.opencontainers.image.url":         home,
		"org.opencontainers.image.source":      home,
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.commit,
		"org.opencontainers.image.created":     r.date.UTC().Format(time.RFC3339),
	}
}

// index returns the images of all platforms, given as ARCH=FOLDER.
func (r release) index(platforms []string) (v1.ImageIndex, error) {
	index := mutate.Annotations(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), r.labels()).(v1.ImageIndex)
	for _, platform := range platforms {
		arch, folder, ok := strings.Cut(platform, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not ARCH=FOLDER", platform)
		}
		image, err := r.image(arch, folder)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index, nil
}

// image returns the image of one platform, from a folder with its programs.
func (r release) image(arch, folder string) (v1.Image, error) {
	files, err := r.files(folder)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: r.date.UTC()}
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "mcptrack-image"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Created, config.OS, config.Architecture = created, "linux", arch
	config.Config = v1.Config{
		User: "65532:65532", Entrypoint: []string{"/usr/bin/mcptrack"}, Cmd: []string{"--help"}, WorkingDir: state,
		// A config that is named needs no approval.
		Env:     []string{"PATH=/usr/bin", "HOME=" + state, "MCPTRACK_CONFIG=/etc/mcptrack/mcp-servers.json"},
		Volumes: map[string]struct{}{state: {}}, Labels: r.labels(),
	}
	return mutate.ConfigFile(image, config)
}

// files returns the file system, as a tar archive.
func (r release) files(folder string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	var failed error
	add := func(name string, mode int64, content []byte) {
		header := &tar.Header{Name: name, Mode: mode, Size: int64(len(content)), ModTime: r.date, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if strings.HasSuffix(name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if failed == nil {
			failed = w.WriteHeader(header)
		}
		if failed == nil {
			_, failed = w.Write(content)
		}
	}
	for _, dir := range []string{"etc/", "etc/mcptrack/", "etc/ssl/", "etc/ssl/certs/", "usr/", "usr/bin/", "var/", "var/lib/"} {
		add(dir, 0o755, nil)
	}
	// Any user may run the image, with a new volume, too: engines give it the mode of this folder.
	add("tmp/", 0o1777, nil)
	add(state[1:]+"/", 0o1777, nil)
	add("etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nmcptrack:x:65532:65532:mcptrack:"+state+":/sbin/nologin\n"))
	add("etc/group", 0o644, []byte("root:x:0:\nmcptrack:x:65532:\n"))
	add("etc/ssl/certs/ca-certificates.crt", 0o644, roots())
	for _, program := range []string{"mcptrack", "mcptrack-attach"} {
		content, err := os.ReadFile(filepath.Join(folder, program))
		if err != nil {
			return nil, err
		}
		add("usr/bin/"+program, 0o755, content)
	}
	if failed == nil {
		failed = w.Close()
	}
	return out.Bytes(), failed
}

// roots returns Mozilla's root certificates, without those that it trusts only in part: a file cannot say
// that.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return out.Bytes()
}
