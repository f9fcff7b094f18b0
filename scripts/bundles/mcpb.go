package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	vaultSummary   = "Serves a folder of Markdown notes, and notifies clients of every change"
	gatewaySummary = "Serves all your MCP servers as one, and tells the model what has changed"
)

// A bundle is an MCP bundle that was written: its server, file and hash.
type bundle struct{ server, file, sha256 string }

type object = map[string]any

// writeMCPB writes a bundle of the vault and one of the gateway for each platform. A bundle cannot choose
// between processors, so each contains one program.
func (r release) writeMCPB(dir string) ([]bundle, error) {
	license, err := licenses()
	if err != nil {
		return nil, err
	}
	var all []bundle
	for _, p := range r.platforms {
		content, err := p.program("mcptrack")
		if err != nil {
			return nil, err
		}
		program := "server/" + p.file("mcptrack")
		for _, b := range []struct {
			server, name string
			manifest     object
		}{
			{vaultName, "mcptrack-vault", r.vaultBundle(program)},
			{gatewayName, "mcptrack-gateway", r.gatewayBundle(program)},
		} {
			b.manifest["name"] = b.name
			b.manifest["compatibility"] = object{"platforms": []string{nodeOS[p.os]}}
			packed, err := zipped(append([]file{
				{name: "manifest.json", content: indented(b.manifest)},
				{name: program, program: true, content: content},
			}, license...))
			if err != nil {
				return nil, err
			}
			name := fmt.Sprintf("%s_%s_%s.mcpb", b.name, p.os, p.arch)
			if err := os.WriteFile(filepath.Join(dir, name), packed, 0o644); err != nil {
				return nil, err
			}
			sum := sha256.Sum256(packed)
			all = append(all, bundle{b.server, name, hex.EncodeToString(sum[:])})
		}
	}
	return all, nil
}

// bundleManifest returns what the manifests of all bundles have.
func (r release) bundleManifest(program string, args ...string) object {
	return object{
		"manifest_version": "0.3", "version": r.version, "author": object{"name": "mcptrack", "url": home},
		"repository": object{"type": "git", "url": home + ".git"}, "homepage": home, "support": home + "/issues",
		"server": object{
			"type": "binary", "entry_point": program,
			"mcp_config": object{"command": "${__dirname}/" + program, "args": args, "env": object{}},
		},
	}
}

func (r release) vaultBundle(program string) object {
	m := r.bundleManifest(program, "vault", "--stdio", "${user_config.folder}")
	m["display_name"] = "Notes (mcptrack vault)"
	m["description"] = vaultSummary
	m["keywords"] = []string{"obsidian", "markdown", "notes"}
	m["tools"] = []object{
		{"name": "search_notes", "description": "Finds notes by words and tags"},
		{"name": "read_note", "description": "Returns a note by its path, or as it is linked"},
	}
	m["user_config"] = object{"folder": object{
		"type": "directory", "title": "Folder of notes", "required": true,
		"description": "A folder of Markdown notes, such as an Obsidian vault. It is only read.",
	}}
	return m
}

func (r release) gatewayBundle(program string) object {
	m := r.bundleManifest(program, gatewayArgs("${user_config.config}")...)
	m["display_name"] = "Gateway (mcptrack)"
	m["description"] = gatewaySummary
	m["keywords"] = []string{"gateway", "notifications"}
	m["tools_generated"], m["prompts_generated"] = true, true
	m["user_config"] = object{"config": object{
		"type": "file", "title": "Config", "required": true,
		"description": "A JSON file whose mcpServers are the servers to serve. It starts what it names, so choose a file that you trust.",
	}}
	return m
}

// gatewayArgs returns the arguments with which clients start the gateway.
func gatewayArgs(config string) []string {
	return []string{"gateway", "--all", "--change-tools", "--stdio", "--config", config}
}

// zipped returns an archive of files with the first time that zip can express.
func zipped(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
		header.SetMode(0o644)
		if f.program {
			header.SetMode(0o755)
		}
		to, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
