package main

import (
	"maps"
	"slices"
)

const schema = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

// An entry is the server.json of the MCP registry.
type entry struct {
	Schema      string         `json:"$schema"`
	Name        string         `json:"name"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	Version     string         `json:"version"`
	WebsiteURL  string         `json:"websiteUrl"`
	Repository  repository     `json:"repository"`
	Packages    []registration `json:"packages"`
}

// A registration is one way to install the server.
type registration struct {
	RegistryType     string   `json:"registryType"`
	Identifier       string   `json:"identifier"`
	Version          string   `json:"version,omitempty"`
	FileSHA256       string   `json:"fileSha256,omitempty"`
	RuntimeHint      string   `json:"runtimeHint,omitempty"`
	Transport        object   `json:"transport"`
	RuntimeArguments []object `json:"runtimeArguments,omitempty"`
	PackageArguments []object `json:"packageArguments,omitempty"`
}

// entries returns the entries of the gateway and of the vault. The registry takes a package only if it
// has the name of the entry, so the vault has an npm package of its own. The image has the name of the
// gateway.
func (r release) entries(bundles []bundle) []entry {
	stdio := object{"type": "stdio"}
	npm := registration{
		RegistryType: "npm", Version: r.version, RuntimeHint: "npx", Transport: stdio,
	}
	config := object{
		"description": "A JSON file whose mcpServers are the servers to serve; it starts what it names",
		"format":      "filepath", "isRequired": true,
	}

	gateway := r.entry(gatewayName, "mcptrack", gatewaySummary)
	program := npm
	program.Identifier = "mcptrack"
	args := gatewayArgs("")
	for _, arg := range args[:len(args)-2] {
		program.PackageArguments = append(program.PackageArguments, object{"type": "positional", "value": arg})
	}
	image := registration{
		RegistryType: "oci", Identifier: "ghcr.io/mcptrack/mcptrack:" + r.version, RuntimeHint: "docker", Transport: stdio,
		RuntimeArguments: []object{{
			"type": "named", "name": "--mount", "value": "type=bind,source={config},target=/etc/mcptrack/mcp-servers.json,readonly",
			"description": "The image contains no other programs, so the servers of the config need URLs", "isRequired": true,
			"variables": object{"config": config},
		}},
		PackageArguments: slices.Clone(program.PackageArguments),
	}
	named := object{"type": "named", "name": args[len(args)-2]}
	maps.Copy(named, config)
	program.PackageArguments = append(program.PackageArguments, named)
	gateway.Packages = append([]registration{program, image}, r.bundled(bundles, gatewayName)...)

	vault := r.entry(vaultName, "Notes", vaultSummary)
	program = npm
	program.Identifier = "@mcptrack/vault"
	program.PackageArguments = []object{{
		"type": "positional", "valueHint": "folder", "format": "filepath", "isRequired": true,
		"description": "A folder of Markdown notes, such as an Obsidian vault; it is only read",
	}}
	vault.Packages = append([]registration{program}, r.bundled(bundles, vaultName)...)
	return []entry{gateway, vault}
}

func (r release) entry(name, title, description string) entry {
	return entry{
		Schema: schema, Name: name, Title: title, Description: description, Version: r.version, WebsiteURL: home,
		Repository: repository{URL: home, Source: "github"},
	}
}

// bundled returns the bundles of one server, which are files of the release.
func (r release) bundled(bundles []bundle, server string) []registration {
	var list []registration
	for _, b := range bundles {
		if b.server == server {
			list = append(list, registration{
				RegistryType: "mcpb", Identifier: home + "/releases/download/v" + r.version + "/" + b.file, FileSHA256: b.sha256,
				Transport: object{"type": "stdio"},
			})
		}
	}
	return list
}
