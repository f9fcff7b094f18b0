package draft

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
)

// entries are the servers of a new config, in the list form. Ids are unique.
type entries struct {
	servers []entryObject
	byID    map[string]string // by ID, the JSON of each server without its id
}

// An entryObject is one server as an object that keeps the order of its members.
type entryObject []config.Key

// MarshalJSON writes the members in their order.
func (o entryObject) MarshalJSON() ([]byte, error) {
	members := make([][]byte, len(o))
	for i, k := range o {
		name, err := printable.Marshal(k.Name)
		if err != nil {
			return nil, err
		}
		value, err := printable.Marshal(k.Value)
		if err != nil {
			return nil, err
		}
		members[i] = slices.Concat(name, []byte(":"), value)
	}
	return slices.Concat([]byte("{"), bytes.Join(members, []byte(",")), []byte("}")), nil
}

// add adds a server of a host and reports whether it is new. If another server has the same
// name and differs, the name of the host is added to the ID.
func (e *entries) add(srv config.Imported, host string) bool {
	object := entryObject(srv.Keys)
	if !srv.Enabled {
		object = append(object, config.Key{Name: "enabled", Value: false})
	}
	object = append(object, config.Key{Name: "trackResources", Value: true})
	text, err := object.MarshalJSON()
	if err != nil {
		return false // cannot happen: all values came from a config
	}
	if e.byID == nil {
		e.byID = map[string]string{}
	}
	id := srv.ID
	for n := 1; ; n++ {
		same, taken := e.byID[id]
		switch {
		case same == string(text):
			return false
		case !taken:
			e.byID[id] = string(text)
			e.servers = append(e.servers, append(entryObject{{Name: "id", Value: id}}, object...))
			return true
		case n == 1:
			id = srv.ID + "-" + host
		default:
			id = fmt.Sprintf("%s-%s-%d", srv.ID, host, n)
		}
	}
}

// IsZero reports whether there are no servers.
func (e entries) IsZero() bool { return len(e.servers) == 0 }

// MarshalJSON writes the config.
func (e entries) MarshalJSON() ([]byte, error) {
	return entryObject{{Name: "servers", Value: e.servers}}.MarshalJSON()
}

// document returns the config as the text of a file.
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
