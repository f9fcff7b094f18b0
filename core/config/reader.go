package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/suggest"
)

// root reads the root object of the document, which contains the servers.
func (r *reader) root(root *tree.Node) {
	if root.Kind != tree.Object {
		hint := ""
		if root.Kind == tree.List {
			hint = `wrap the list: {"servers": […]}`
		}
		r.errorAt(root.Offset, "", CodeType, r.needsServers(), hint)
		return
	}
	found := r.containers(root)
	if len(found) > 1 && !strings.HasPrefix(string(found[0].path), "/projects/") {
		first, later := found[0].key, found[1].key
		if first.Offset > later.Offset {
			first, later = later, first
		}
		r.errorAt(later.Offset, pointer("").key(later.Name), CodeConflict,
			fmt.Sprintf(`Config at %s has both %q and %q`, r.file, first.Name, later.Name), "move all servers into one of them")
	}
	r.form = r.formOf(found)
	index, seen, ours := root.Index(), map[string]bool{}, r.rootKeys()
	for _, m := range root.Members { // other duplicates in a settings file concern other programs
		if first := index[m.Name]; first != m && !seen[m.Name] && ours[m.Name] {
			seen[m.Name] = true
			r.duplicate(m, first.Offset, "")
		}
	}
	r.off = r.disabledElsewhere(root)
	for _, c := range found {
		r.foreign = r.foreign || c.path != "/servers" && c.path != "/mcpServers"
		r.duplicateKeys(c.value, c.path, c.value.Kind == tree.Object)
		r.servers(c)
	}
	for _, k := range besideKeys() {
		m := index[k.name]
		switch {
		case m == nil || m.Value.Kind == tree.Null || len(found) == 0 || r.form == others:
		case r.form == shared && !k.shaped(m.Value):
			r.warnAt(m.Offset, pointer("").key(k.name), CodeForeign,
				fmt.Sprintf("Config at %s has %q of another program, which mcptrack does not read", r.file, k.name), "")
		default:
			r.duplicateKeys(m.Value, pointer("").key(k.name), false)
			k.read(r, m.Value)
		}
	}
	if len(found) == 0 && !hosts.IsSettings(r.file) {
		r.noServers(root)
	}
	if len(found) == 0 || found[0].value != root {
		r.unknownRootKeys(root, found)
	}
}

func (r *reader) needsServers() string {
	return fmt.Sprintf(`Config at %s must contain a "servers" array or an "mcpServers" object`, r.file)
}

// noServers reports that the document contains no servers, with a likely cause.
func (r *reader) noServers(root *tree.Node) {
	hint := `the smallest config is {"servers": []}`
	if r.looksLikeServer(root) {
		hint = `give the server a name: {"mcpServers": {"NAME": {…}}}`
	}
	for _, m := range root.Members {
		if r.looksLikeServer(m.Value) {
			hint = `wrap the servers: {"mcpServers": {…}}`
		}
	}
	r.errorAt(root.Offset, "", CodeMissing, r.needsServers(), hint)
}

// A form specifies how much of a file belongs to mcptrack.
type form int

const (
	// shared: other programs write servers in the same place. A key of mcptrack that they use for
	// something else, with a value of another shape, is a warning and is not read.
	shared form = iota
	// own: the list "servers", which only mcptrack has. Everything in the file is mcptrack's.
	own
	// others: the file of a host. Only its servers are read, and an error in the entry of a server
	// makes that server Unconfigured.
	others
)

// formOf returns the form of the file that contains these servers.
func (r *reader) formOf(found []container) form {
	list, elsewhere := false, false
	for _, c := range found {
		list = list || c.path == "/servers" && c.value.Kind == tree.List
		elsewhere = elsewhere || c.path != "/servers" && c.path != "/mcpServers"
	}
	switch {
	case hosts.Owns(absolute(r.file)), elsewhere, r.format != tree.JSON && !list:
		return others
	case list:
		return own
	}
	return shared
}

// A besideKey is a key of the root object that is read in addition to the servers.
type besideKey struct {
	name string
	kind tree.Kind // of the value
	keys []string  // of the value or, if it has elements, of these; nil for any
	read func(*reader, *tree.Node)
}

func besideKeys() []besideKey {
	return []besideKey{
		{"inputs", tree.List, nil, (*reader).inputs},
		{"index", tree.Object, indexKeys().names(), func(r *reader, v *tree.Node) { r.config.Index = r.index(v) }},
		{"webhooks", tree.List, webhookKeys().names(), func(r *reader, v *tree.Node) { r.config.Webhooks = r.webhooks(v) }},
		{"hooks", tree.List, hookKeys().names(), func(r *reader, v *tree.Node) { r.config.Hooks = r.hooks(v) }},
		{"clients", tree.Object, clientKeys().names(), func(r *reader, v *tree.Node) { r.config.Clients = r.clients(v) }},
	}
}

// shaped reports whether a value has the shape of the key's values: its kind, and mostly its keys.
func (k besideKey) shaped(v *tree.Node) bool {
	if v.Kind != k.kind || k.keys == nil {
		return v.Kind == k.kind
	}
	objects := v.Items
	switch {
	case k.name == "clients": // by name
		for _, m := range v.Members {
			objects = append(objects, m.Value)
		}
	case v.Kind == tree.Object:
		objects = []*tree.Node{v}
	}
	known, all := 0, 0
	for _, n := range objects {
		if n.Kind != tree.Object {
			all++
		}
		for _, m := range n.Members {
			if all++; slices.Contains(k.keys, m.Name) {
				known++
			}
		}
	}
	return 2*known >= all
}

// rootKeys returns the keys of the root object that mcptrack reads.
func (r *reader) rootKeys() map[string]bool {
	keys := map[string]bool{"mcp": true}
	for _, name := range containerKeys() {
		keys[name] = true
	}
	for _, k := range besideKeys() {
		keys[k.name] = r.form != others
	}
	return keys
}

// unknownRootKeys reports unknown keys of the root object. In the file of a host that has servers, they are the
// host's, except what has the shape of a key of mcptrack.
func (r *reader) unknownRootKeys(root *tree.Node, found []container) {
	names, known, notHere := []string{"servers", "mcpServers"}, r.rootKeys(), map[string]besideKey{}
	for _, k := range besideKeys() {
		if r.form == others {
			notHere[k.name] = k
		} else {
			names = append(names, k.name)
		}
	}
	for _, name := range []string{"projects", "sandbox", "version", "imports", "mcpProxy", "inputs"} {
		known[name] = true
	}
	for _, c := range found {
		known[c.key.Name] = true
		if first, _, nested := strings.Cut(strings.TrimPrefix(string(c.path), "/"), "/"); nested {
			known[first] = true
		}
	}
	for _, m := range root.Members {
		if r.warnings == maxProblems {
			return
		}
		meant := cmp.Or(misnamed(m.Name), suggest.Nearest(m.Name, names))
		what, hint := "unknown key "+quote(m.Name), fmt.Sprintf("did you mean %q?", meant)
		if meant == "" {
			hint = ""
		}
		switch k, ok := notHere[m.Name]; {
		case isComment(m.Name) || known[m.Name]:
			continue
		case ok && len(m.Value.Members)+len(m.Value.Items) > 0 && k.shaped(m.Value):
			what = fmt.Sprintf("%q, which mcptrack does not read in the config of another program", m.Name)
			hint = "write a config of your own: mcptrack init copies these servers into one"
		case r.form == others && (meant == "" || len(found) > 0):
			continue
		}
		r.warnAt(m.Offset, pointer("").key(m.Name), CodeUnknownKey, fmt.Sprintf("Config at %s has %s", r.file, what), hint)
	}
}

// A reader converts the tree of one document to servers.
type reader struct {
	*document
	keys      table // the table of server keys
	oauthKeys table
	names     []string // names of all server keys
	effective []string // names of the keys that affect what is run or sent
	expander  expander
	config    *Config        // contains the servers read so far
	ids       map[string]int // offset of the first occurrence of each ID
	durations *regexp.Regexp // matches Go durations without a sign, as in schema.json
	envFiles  map[string]envFile
	off       func(id string) bool // reports whether the file disables a server outside the server's entry
	tracks    bool                 // at least one server has a key that selects what to track
	foreign   bool                 // the servers are where only the files of other hosts have them
	format    tree.Format          // the syntax of the file
	form      form
	entries   map[string]string // the ids of the servers in the file of a host, by path as in a Problem
	// visit, if not nil, is called for every entry; the entry is then not added to the config.
	visit func(e *entry, id string)
}

func newReader(d *document, opts Options, workspace string) *reader {
	keys := serverKeys() // computed once, because a malicious file may contain many servers
	return &reader{document: d, format: tree.Detect(d.file), entries: map[string]string{}, keys: keys, oauthKeys: oauthKeys(), names: keys.names(), effective: keys.effective().names(), expander: newExpander(opts, workspace, d.file),
		config: &Config{}, ids: map[string]int{}, durations: regexp.MustCompile(`^(\d+(\.\d+)?(ns|us|µs|μs|ms|s|m|h))+$`),
		envFiles: map[string]envFile{}}
}

func (r *reader) servers(c container) {
	r.expander.braces = c.braces
	defer func() { r.expander.braces = false }()
	switch {
	case c.value.Kind == tree.Null:
	case c.value.Kind == tree.Object:
		r.serverMap(c)
	case c.value.Kind == tree.List:
		for i, item := range c.value.Items {
			if r.full() { // further errors would not be kept
				return
			}
			r.listEntry(item, c.path.index(i), i)
		}
	case c.key.Name == "servers":
		r.errorAt(c.value.Offset, c.path, CodeType, fmt.Sprintf(`Config at %s must contain a "servers" array`, r.file),
			"an object that maps names to servers is also accepted")
	default:
		r.errorAt(c.value.Offset, c.path, CodeType,
			fmt.Sprintf(`Config at %s has invalid %q; expected object of servers by name`, r.file, c.key.Name), "")
	}
}

func (r *reader) listEntry(n *tree.Node, path pointer, index int) {
	r.entries[path.String()] = ""
	if n.Kind != tree.Object {
		r.errorAt(n.Offset, path, CodeType, fmt.Sprintf("Entry at index %d must be an object", index), "")
		return
	}
	e := r.entry(n, path, fmt.Sprintf("Server at index %d", index))
	needsID := fmt.Sprintf(`Entry at index %d must include a non-empty string "id"`, index)
	if e.isBuiltin() {
		return
	}
	key := "id"
	id := e.members["id"]
	if id == nil && e.members["name"] != nil { // Continue uses "name" to identify its servers
		key, id = "name", e.members["name"]
	}
	switch {
	case id == nil:
		r.errorAt(n.Offset, path, CodeMissing, needsID, "")
		e.add("", false)
	case id.Value.Kind != tree.String:
		r.errorAt(id.Value.Offset, path.key(key), CodeType, needsID, "")
		e.add("", false)
	default:
		name := id.Value.Text // never expanded, like a server name used as a key
		if strings.TrimSpace(name) != "" {
			e.label = "Server " + quote(name)
		}
		e.add(name, r.checkID(name, needsID, id.Value.Offset, path, path.key(key)))
	}
}

func (r *reader) serverMap(c container) {
	for _, m := range c.value.Members {
		if r.full() {
			return
		}
		if c.overridden[m.Name] || c.value.Kind == tree.Object && isComment(m.Name) && m.Value.Kind != tree.Object {
			continue
		}
		at := c.path.key(m.Name)
		named := r.checkID(m.Name, "Server name must not be empty", m.Offset, at, at)
		if m.Value.Kind != tree.Object {
			r.errorAt(m.Value.Offset, at, CodeType, fmt.Sprintf("Server %s must be an object", quote(m.Name)), "")
			if named && r.visit == nil {
				r.config.Servers = append(r.config.Servers, Server{ID: m.Name, Enabled: true, Transport: TransportStdio})
			}
			continue
		}
		e := r.entry(m.Value, at, "Server "+quote(m.Name))
		if e.isBuiltin() {
			continue
		}
		if id, ok := e.members["id"]; ok && !(id.Value.Kind == tree.String && id.Value.Text == m.Name) {
			r.errorAt(id.Value.Offset, at.key("id"), CodeConflict,
				fmt.Sprintf(`%s has another "id"; in a map of servers the key is the id`, e.label), `remove "id"`)
		}
		e.add(m.Name, named)
	}
}

// maxID is the maximum length of a server ID, in characters.
const maxID = 128

// checkID reports an ID of the entry at a path that is invalid or already in use, and returns false.
// empty is the message for an empty ID, which is at idPath.
func (r *reader) checkID(id, empty string, offset int, path, idPath pointer) bool {
	if strings.TrimSpace(id) == "" {
		r.entries[path.String()] = ""
		r.errorAt(offset, idPath, CodeID, empty, "")
		return false
	}
	if !printableID(id) {
		r.entries[path.String()] = ""
		r.errorAt(offset, idPath, CodeID,
			fmt.Sprintf("Server %s has an invalid id; expected at most %d printable characters", quote(id), maxID), "")
		return false
	}
	r.entries[path.String()] = id
	if first, ok := r.ids[id]; ok {
		line, _ := r.Position(first)
		r.errorAt(offset, idPath, CodeDuplicateID, fmt.Sprintf("Duplicate server id %s found", quote(id)),
			fmt.Sprintf("it is already used on line %d", line))
		return false
	}
	r.ids[id] = offset
	return true
}

// confine makes the servers Unconfigured whose entries have errors. It returns false if the file must
// be refused instead: it is not the file of a host, or another part of it has an error.
func (r *reader) confine() bool {
	if r.form != others {
		return r.errors == 0
	}
	for _, p := range r.problems {
		if p.Severity != SeverityError {
			continue
		}
		at, known := p.Path, false
		for id := ""; !known && at != ""; at = at[:strings.LastIndexByte(at, '/')] {
			if id, known = r.entries[at]; !known {
				continue
			}
			if i := slices.IndexFunc(r.config.Servers, func(s Server) bool { return s.ID == id }); i >= 0 {
				(*clauses)(&r.config.Servers[i].Missing).add(p.Message)
			}
		}
		if !known {
			return false
		}
	}
	return true
}

// printableID reports whether s is short enough and contains only visible characters and ASCII
// spaces, because IDs are displayed in logs, tables and event streams.
func printableID(s string) bool {
	return utf8.RuneCountInString(s) <= maxID &&
		strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// inputs checks the structure of VS Code's "inputs". The values of inputs come from the
// environment.
func (r *reader) inputs(list *tree.Node) {
	if list.Kind != tree.List {
		r.errorAt(list.Offset, "/inputs", CodeType, fmt.Sprintf(`Config at %s has invalid "inputs"; expected array`, r.file), "")
		return
	}
	for i, item := range list.Items {
		path := pointer("/inputs").index(i)
		if item.Kind != tree.Object {
			r.errorAt(item.Offset, path, CodeType, fmt.Sprintf("Input at index %d must be an object", i), "")
			continue
		}
		needsID := fmt.Sprintf(`Input at index %d must include a non-empty string "id"`, i)
		switch id := item.Get("id"); {
		case id == nil:
			r.errorAt(item.Offset, path, CodeMissing, needsID, "")
		case id.Value.Kind != tree.String || id.Value.Text == "":
			r.errorAt(id.Value.Offset, path.key("id"), CodeType, needsID, "")
		}
	}
}

// Index configures the gateway's index of all capabilities; see core/gateway/capindex. The zero
// value uses the defaults.
type Index struct {
	Enabled bool
	Expose  []string      // subset of IndexDocuments; empty means all
	TTL     time.Duration // how long a generated index is valid; 0 means the default
}

// IndexDocuments returns the names of the documents in an index.
func IndexDocuments() []string { return []string{"summary", "full", "stats"} }

// index reads the key "index" of the document.
func (r *reader) index(v *tree.Node) (x Index) {
	if v.Kind != tree.Object {
		r.errorAt(v.Offset, "/index", CodeType, fmt.Sprintf(`Config at %s has invalid "index"; expected object`, r.file),
			`write {"enabled": true}`)
		return x
	}
	indexKeys().fill(r.entry(v, "/index", "Index"), &x, nil)
	return x
}
