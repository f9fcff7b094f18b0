package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Client specifies what one client of a gateway or of the daemon sees.
type Client struct {
	Name string
	// Token is what the client presents to a gateway; empty if it has none.
	Token Secret
	// Folder is a glob for working directories. In the daemon the entry applies to the sessions there or, if
	// it is empty, to those whose client has the name; see [Config.ClientFor].
	Folder string
	// Servers contains globs for server ids; empty means all.
	Servers []string
	// Allow and Deny contain globs for exported names and URIs, as in core/gateway.Options.
	Allow, Deny []string

	// Intent describes the entry as written in the file; nil if it was not read from a file.
	Intent *Intent
	// Missing lists what the client needs but is missing on this machine, one clause each, without values.
	// If it is not empty, the client must be refused.
	Missing []string
}

const maxClients = 100

// Equal reports whether all fields of c and o except their Intents are equal.
func (c Client) Equal(o Client) bool {
	c.Intent, o.Intent = nil, nil
	return equal(reflect.ValueOf(c), reflect.ValueOf(o))
}

// Sees reports whether the client sees the server with this id.
func (c Client) Sees(server string) bool {
	return len(c.Servers) == 0 || slices.ContainsFunc(c.Servers, func(g string) bool { return g == server || glob.Match(g, server) })
}

// ClientFor returns the first client in the file that applies to a session with the daemon, or nil if there
// is none. name is what the client calls itself: case is ignored, and a space is "-". folders are the paths of its
// working directory.
func (c *Config) ClientFor(name string, folders ...string) *Client {
	name = strings.ReplaceAll(strings.ToLower(name), " ", "-")
	for i, client := range c.Clients {
		if slices.ContainsFunc(folders, func(at string) bool { return client.Folder != "" && glob.Match(client.Folder, at) }) || client.Folder == "" && strings.ToLower(client.Name) == name {
			return &c.Clients[i]
		}
	}
	return nil
}

// clientKeys returns the keys of a client.
func clientKeys() table {
	return table{
		{name: "token", field: "Token", read: reads((*entry).clientToken), schema: "clientToken", example: `"${CI_TOKEN}"`,
			doc: "The token that the client sends to `gateway`: 16 to 1,024 visible ASCII characters."},
		{name: "folder", field: "Folder", read: reads((*entry).clientFolder), schema: "text", example: `"/home/me/work/**"`,
			doc: "For the daemon: a glob of absolute paths. The entry applies to every client in such a folder. Default: to the client that calls itself NAME."},
		{name: "servers", field: "Servers", globs: "server ids",
			doc: "Globs of the servers that the client sees. Default: all."},
		{name: "allow", field: "Allow", globs: "names and URIs",
			doc: "Globs of the names and URIs that it sees, as `--allow` of `gateway`. Default: all."},
		{name: "deny", field: "Deny", globs: "names and URIs",
			doc: "Globs of the names and URIs that it does not see, as `--deny`."},
	}.made(Client{})
}

// clients reads the clients, by name. The servers must have been read.
func (r *reader) clients(v *tree.Node) (all []Client) {
	const at = pointer("/clients")
	if v.Kind != tree.Object {
		r.errorAt(v.Offset, at, CodeType, fmt.Sprintf(`Config at %s has invalid "clients"; expected object of clients by name`, r.file),
			`write {"ci": {"token": "${CI_TOKEN}", "deny": ["*delete*"]}}`)
		return nil
	}
	if len(v.Members) > maxClients {
		r.errorAt(v.Offset, at, CodeRange, fmt.Sprintf(`Config at %s has invalid "clients"; expected at most %d`, r.file, maxClients), "")
		return nil
	}
	owners := map[string]string{} // name of the client, by token
	for name, m := range firstMembers(v) {
		label := "Client " + quote(name)
		switch {
		case len(name) > 32 || !validHookID(name):
			r.errorAt(m.Offset, at.key(name), CodeID, label+` has an invalid name; expected up to 32 letters, digits, ".", "_" and "-"`, "")
			continue
		case m.Value.Kind != tree.Object:
			r.errorAt(m.Value.Offset, at.key(name), CodeType, label+" must be an object", "")
			continue
		}
		e := r.entry(m.Value, at.key(name), label)
		c := e.client(name)
		if token := c.Token.Reveal(); token != "" {
			if other, known := owners[token]; known {
				f, _ := e.field("token")
				r.errorAt(f.value.Offset, f.path, CodeDuplicateID, fmt.Sprintf("%s has the token of client %s", label, quote(other)), "each client needs its own token")
			}
			owners[token] = name
		}
		all = append(all, c)
	}
	return all
}

func (e *entry) client(name string) Client {
	c := Client{Name: name}
	keys := clientKeys()
	keys.fill(e, &c, &c.Missing)
	for i, g := range c.Servers {
		f, _ := e.field("servers")
		only := Client{Servers: []string{g}}
		if !slices.ContainsFunc(e.config.Servers, func(s Server) bool { return only.Sees(s.ID) }) {
			e.warnAt(f.value.Offset, f.path.index(i), CodeReference, fmt.Sprintf(`%s has "servers" that match no server of this config: %s`, e.label, quote(g)), "")
		}
	}
	c.Intent = e.intent(name, keys.names())
	return c
}

// clientToken reads the token.
func (e *entry) clientToken(spellings []string, c *Client) {
	value, f, ok := e.text(spellings...)
	if !ok {
		return
	}
	expected := ""
	if len(value) < 16 || len(value) > 1024 || !printable.VisibleASCII(value) {
		expected = "16 to 1,024 visible ASCII characters"
	}
	c.Token = e.secret(value, f.value, f.path, f.name, expected, "create one with: openssl rand -hex 32, and give it to the client")
}

func (e *entry) clientFolder(spellings []string, c *Client) {
	value, f, ok := e.text(spellings...)
	if !ok {
		return
	}
	code := CodeGlob
	if strings.TrimSpace(value) == "" { // what the schema also covers
		code = CodeValue
	}
	if !glob.Valid(value) || !strings.ContainsAny(value[:1], `/\*?{[`) && !strings.HasPrefix(value[1:], ":") {
		e.invalidValue(f.value, f.path, code, `invalid "folder"; expected a glob for absolute paths`, `* matches within a path segment, ** across segments: "/home/me/work/**"`)
		return
	}
	c.Folder = value
}
