// Mcptrack-sbom writes what an archive of a release consists of, as an SPDX document: its programs, and
// the Go modules that the linker recorded in them. GoReleaser runs it for each archive. The document
// of two equal archives is the same.
// usage: mcptrack-sbom ARCHIVE DOCUMENT
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const home = "https://github.com/mcptrack/mcptrack"

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: mcptrack-sbom ARCHIVE DOCUMENT")
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(archive, document string) error {
	data, err := os.ReadFile(archive)
	if err != nil {
		return err
	}
	found, err := programs(archive, data)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	doc, err := describe(filepath.Base(archive), data, found)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	var out bytes.Buffer
	if err := spdxjson.Write(doc, &out, spdxjson.Indent(" "), spdxjson.EscapeHTML(false)); err != nil {
		return err
	}
	return os.WriteFile(document, out.Bytes(), 0o644)
}

// program is a Go program in an archive.
type program struct {
	name string
	sum  string // SHA-256, in hex
	info *buildinfo.BuildInfo
}

// programs returns the Go programs of a .tar.gz or .zip archive, in its order.
func programs(name string, archive []byte) (found []program, err error) {
	add := func(name string, r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		info, err := buildinfo.Read(bytes.NewReader(data))
		if err != nil {
			return nil // another file
		}
		found = append(found, program{path.Base(name), sha(data), info})
		return nil
	}
	if strings.HasSuffix(name, ".zip") {
		files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
		if err != nil {
			return nil, err
		}
		for _, file := range files.File {
			r, err := file.Open()
			if err != nil {
				return nil, err
			}
			if err := errors.Join(add(file.Name, r), r.Close()); err != nil {
				return nil, err
			}
		}
	} else {
		plain, err := gzip.NewReader(bytes.NewReader(archive))
		if err != nil {
			return nil, err
		}
		for files := tar.NewReader(plain); ; {
			file, err := files.Next()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if err := add(file.Name, files); err != nil {
				return nil, err
			}
		}
	}
	if len(found) == 0 {
		return nil, errors.New("it contains no Go program")
	}
	return found, nil
}

// describe returns the document of an archive.
func describe(name string, archive []byte, found []program) (*spdx.Document, error) {
	first := found[0].info
	settings := map[string]string{}
	for _, s := range first.Settings {
		settings[s.Key] = s.Value
	}
	if settings["vcs.time"] == "" || first.Main.Version == "" {
		return nil, errors.New("the programs do not record their commit; build with -buildvcs=true")
	}
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name,
		// A name that no other document has: the archive's digest.
		DocumentNamespace: home + "/sbom/" + sha(archive),
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "mcptrack-sbom"}, {CreatorType: "Organization", Creator: "mcptrack"}},
			Created:  settings["vcs.time"],
		},
	}
	relate := func(from common.ElementID, kind string, to common.ElementID) {
		doc.Relationships = append(doc.Relationships, &spdx.Relationship{
			RefA: common.DocElementID{ElementRefID: from}, RefB: common.DocElementID{ElementRefID: to}, Relationship: kind,
		})
	}
	add := func(p *spdx.Package) common.ElementID {
		p.PackageSPDXIdentifier = common.ElementID("Package-" + strconv.Itoa(len(doc.Packages)))
		p.PackageLicenseConcluded, p.PackageLicenseDeclared, p.PackageCopyrightText = "NOASSERTION", "NOASSERTION", "NOASSERTION"
		doc.Packages = append(doc.Packages, p)
		return p.PackageSPDXIdentifier
	}
	main := add(&spdx.Package{
		PackageName: name, PackageVersion: first.Main.Version, PackageFileName: name, PrimaryPackagePurpose: "ARCHIVE",
		PackageDownloadLocation: home + "/releases/download/" + first.Main.Version + "/" + name,
		PackageSupplier:         &common.Supplier{SupplierType: "Organization", Supplier: "mcptrack"},
		PackageChecksums:        []common.Checksum{{Algorithm: common.SHA256, Value: sha(archive)}},
		PackageSourceInfo:       "built from commit " + settings["vcs.revision"],
	})
	relate("DOCUMENT", common.TypeRelationshipDescribe, main)
	modules := map[string]common.ElementID{}
	for _, p := range found {
		id := add(&spdx.Package{
			PackageName: p.name, PackageVersion: p.info.Main.Version, PrimaryPackagePurpose: "APPLICATION", PackageDownloadLocation: "NOASSERTION",
			PackageChecksums:          []common.Checksum{{Algorithm: common.SHA256, Value: p.sum}},
			PackageExternalReferences: purl(p.info.Main.Path, p.info.Main.Version),
		})
		relate(main, common.TypeRelationshipContains, id)
		depend := func(path, version, sum string) {
			key := path + "@" + version
			if modules[key] == "" {
				module := &spdx.Package{
					PackageName: path, PackageVersion: version, PrimaryPackagePurpose: "LIBRARY", PackageDownloadLocation: "NOASSERTION",
					PackageExternalReferences: purl(path, version),
				}
				if sum != "" {
					module.PackageComment = "go.sum: " + sum
				}
				modules[key] = add(module)
			}
			relate(id, common.TypeRelationshipDependsOn, modules[key])
		}
		depend("stdlib", strings.TrimPrefix(p.info.GoVersion, "go"), "")
		for _, m := range p.info.Deps {
			for m.Replace != nil {
				m = m.Replace
			}
			depend(m.Path, m.Version, m.Sum)
		}
	}
	return doc, nil
}

// purl returns the package URL of a module, by which databases of vulnerabilities find it.
func purl(path, version string) []*spdx.PackageExternalReference {
	return []*spdx.PackageExternalReference{{
		Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
		Locator: "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B"),
	}}
}

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
