// Package draft makes a new config from those of the MCP hosts found on this machine and in the
// working directory.
//
// Configs are read in the order of [config.HostFiles], servers in the order of their file.
// Secrets are replaced by references; see [config.Import]. Nothing is started, and no config of
// a host is changed. A Draft is not safe for concurrent use.
package draft

import (
	"path/filepath"

	"github.com/mcptrack/mcptrack/core/config"
)

// A Draft is a new config and what it was made from.
type Draft struct {
	Sources   []Source
	Variables []config.Variable // variables that have to be set before all servers can be used

	entries entries
}

// A Source is one config of a host and the ids of its servers.
type Source struct {
	Host    string   `json:"host"`
	File    string   `json:"file"`
	Valid   bool     `json:"valid"` // false: the file has errors, and Servers is empty
	Servers []string `json:"servers"`
}

// Collect reads the configs of the named hosts, or of all, and merges their servers. A server
// that several hosts define identically is taken once; if definitions of one name differ, the
// name of the host is added to the later ones. file, which the draft is for, is not read.
func Collect(read config.Options, file string, names ...string) *Draft {
	d := &Draft{Sources: []Source{}, Variables: []config.Variable{}}
	read.Format = "" // detect the format of each file
	var variables config.Names
	for _, f := range config.HostFiles(read, names...) {
		if filepath.Clean(f.Path) == filepath.Clean(file) {
			continue
		}
		servers, problems := config.Import(f.Path, read, &variables)
		source := Source{Host: f.Host.Name, File: f.Path, Valid: problems.Errors() == 0, Servers: []string{}}
		for _, srv := range servers {
			source.Servers = append(source.Servers, srv.ID)
			if d.entries.add(srv, f.Host.Name) {
				d.Variables = append(d.Variables, srv.Variables...)
			}
		}
		d.Sources = append(d.Sources, source)
	}
	return d
}

// Len is the number of servers.
func (d *Draft) Len() int { return len(d.entries.servers) }

// MarshalJSON writes the config.
func (d *Draft) MarshalJSON() ([]byte, error) { return d.entries.MarshalJSON() }

// Text returns the config as the text of a file.
func (d *Draft) Text() ([]byte, error) { return d.entries.document() }
