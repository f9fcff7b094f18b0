// Package draft creates a new config from the configs of the MCP hosts on this machine and in the
// working directory, and from server cards.
//
// Configs are read in the order of [config.HostFiles], and servers in the order of their file.
// References replace secrets; see [config.Import]. Nothing is started, and no host's config is
// changed. A Draft is not safe for concurrent use.
package draft

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/mcptrack/mcptrack/core/config"
)

// Draft is a new config and the sources it was created from.
type Draft struct {
	Sources   []Source
	Variables []Variable // variables to set before all servers can be used

	entries entries
}

// Source is one host config or server card, with the ids of its servers.
type Source struct {
	Host    string   `json:"host"`  // name of the host, or domain of the card
	File    string   `json:"file"`  // path of the config, or URL of the card
	Valid   bool     `json:"valid"` // false if the file has errors; Servers then has only what could be read
	Servers []string `json:"servers"`
	Refused []string `json:"refused,omitempty"` // why servers of the file, or remotes of a card, are left out
}

// Variable is a variable that must be set before a server can be used.
type Variable struct {
	Name  string `json:"name"`
	File  string `json:"file"`            // path of the config that has the value, or URL of the card that asks for it
	Line  int    `json:"line"`            // of the value in the config; 0 for a card
	About string `json:"about,omitempty"` // what a card says about the value, as one printable line
}

// New returns an empty draft.
func New() *Draft { return &Draft{Sources: []Source{}, Variables: []Variable{}} }

// AddHosts reads the configs of the named hosts, or of all hosts, and merges their servers.
// Identical servers are merged into one. If servers with the same name differ, the host's name is
// added to the later ones. file, the path to which the draft will be written, is not read.
func (d *Draft) AddHosts(read config.Options, file string, names ...string) {
	var variables config.Names
	for _, f := range config.HostFiles(read, names...) {
		if filepath.Clean(f.Path) == filepath.Clean(file) {
			continue
		}
		servers, problems := config.Import(f.Path, read, &variables)
		source := Source{Host: f.Host.Name, File: f.Path, Valid: problems.Errors() == 0, Servers: []string{}}
		for _, p := range problems {
			if p.Severity == config.SeverityError && len(servers) > 0 {
				source.Refused = append(source.Refused, p.Message)
			}
		}
		for _, srv := range servers {
			source.Servers = append(source.Servers, srv.ID)
			if _, isNew := d.entries.add(srv, f.Host.Name); isNew {
				for _, v := range srv.Variables {
					d.Variables = append(d.Variables, Variable{Name: v.Name, File: v.File, Line: v.Line})
				}
			}
		}
		d.Sources = append(d.Sources, source)
	}
}

// Len returns the number of servers.
func (d *Draft) Len() int { return len(d.entries.servers) }

// MarshalJSON encodes the config.
func (d *Draft) MarshalJSON() ([]byte, error) { return d.entries.MarshalJSON() }

// Text returns the config as text for a file.
func (d *Draft) Text() ([]byte, error) { return d.entries.document() }

// entries contains the servers of a new config, in list form. Ids are unique.
type entries struct {
	servers []config.Keys
	byID    map[string]string // JSON of each server without its id, by id
}

// add adds a server from a host, and returns its id and whether it is new. If a different server already
// has its name, the host's name is added to the id.
func (e *entries) add(srv config.Imported, host string) (id string, isNew bool) {
	object := srv.Keys
	if !srv.Enabled {
		object = append(object, config.Key{Name: "enabled", Value: false})
	}
	if !slices.Contains(object, config.Key{Name: "type", Value: string(config.TransportCatalog)}) { // it has nothing to follow
		object = append(object, config.Key{Name: "trackResources", Value: true})
	}
	text, err := object.MarshalJSON()
	if err != nil {
		return srv.ID, false // cannot happen: all values come from a config
	}
	if e.byID == nil {
		e.byID = map[string]string{}
	}
	id = srv.ID
	for n := 1; ; n++ {
		same, taken := e.byID[id]
		switch {
		case same == string(text):
			return id, false
		case !taken:
			e.byID[id] = string(text)
			e.servers = append(e.servers, append(config.Keys{{Name: "id", Value: id}}, object...))
			return id, true
		case n == 1:
			id = srv.ID + "-" + host
		default:
			id = fmt.Sprintf("%s-%s-%d", srv.ID, host, n)
		}
	}
}

// IsZero reports whether there are no servers.
func (e entries) IsZero() bool { return len(e.servers) == 0 }

// MarshalJSON encodes the config.
func (e entries) MarshalJSON() ([]byte, error) {
	return config.Keys{{Name: "servers", Value: e.servers}}.MarshalJSON()
}

// document returns the config as text for a file.
func (e entries) document() ([]byte, error) {
	text, err := e.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
