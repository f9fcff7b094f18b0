package config

import (
	"fmt"
	"regexp"
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
	index, seen, ours := root.Index(), map[string]bool{}, rootKeys()
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
	for _, beside := range []struct {
		name string
		read func(*tree.Node)
	}{
		{"inputs", r.inputs},
		{"index", func(v *tree.Node) { r.config.Index = r.index(v) }},
		{"webhooks", func(v *tree.Node) { r.config.Webhooks = r.webhooks(v) }},
		{"hooks", func(v *tree.Node) { r.config.Hooks = r.hooks(v) }},
	} {
		if (beside.name == "webhooks" || beside.name == "hooks") && hosts.IsSettings(r.file) {
			continue // the key is a setting of another program
		}
		if m := index[beside.name]; m != nil && m.Value.Kind != tree.Null && len(found) > 0 {
			r.duplicateKeys(m.Value, pointer("").key(beside.name), false)
			beside.read(m.Value)
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

// rootKeys returns the keys of the root object that mcptrack reads.
func rootKeys() map[string]bool {
	keys := map[string]bool{"mcp": true, "inputs": true, "index": true, "webhooks": true, "hooks": true}
	for _, name := range containerKeys() {
		keys[name] = true
	}
	return keys
}

// maxNearMisses limits how many unknown keys of the root object are checked for being misspellings.
const maxNearMisses = 200

// unknownRootKeys reports unknown keys of the root object: an individual warning for each key that
// is probably a misspelling of a known key, and a single warning for all others.
func (r *reader) unknownRootKeys(root *tree.Node, found []container) {
	own := []string{"servers", "mcpServers", "inputs", "index", "webhooks", "hooks"}
	known := rootKeys()
	for _, name := range []string{"projects", "sandbox", "version", "imports", "mcpProxy"} {
		known[name] = true
	}
	for _, c := range found {
		known[c.key.Name] = true
		if first, _, nested := strings.Cut(strings.TrimPrefix(string(c.path), "/"), "/"); nested {
			known[first] = true
		}
	}
	warn := func(m *tree.Member, what, hint string) {
		r.warnAt(m.Offset, pointer("").key(m.Name), CodeUnknownKey, fmt.Sprintf("Config at %s has %s", r.file, what), hint)
	}
	var others []*tree.Member
	for _, m := range root.Members {
		if isComment(m.Name) || known[m.Name] {
			continue
		}
		meant := ""
		if len(others) < maxNearMisses {
			meant = misnamed(m.Name)
		}
		if meant == "" && len(others) < maxNearMisses {
			meant = suggest.Nearest(m.Name, own)
		}
		if meant == "" {
			others = append(others, m)
			continue
		}
		warn(m, fmt.Sprintf("unknown key %s", quote(m.Name)), fmt.Sprintf("did you mean %q?", meant))
	}
	switch n := len(others); {
	case n == 0:
	case n == 1 && !hosts.IsSettings(r.file):
		warn(others[0], fmt.Sprintf("unknown key %s", quote(others[0].Name)), "")
	case n == 1:
		warn(others[0], fmt.Sprintf("a key that mcptrack does not read: %s", quote(others[0].Name)), "")
	default:
		warn(others[0], fmt.Sprintf("%d keys that mcptrack does not read, such as %s", n, quote(others[0].Name)), "")
	}
}

// A reader converts the tree of one document to servers.
type reader struct {
	*document
	keys        table[Server] // the table of server keys
	oauthKeys   table[OAuth]
	names       []string // names of all server keys
	effective   []string // names of the keys that affect what is run or sent
	expander    expander
	lookPath    func(string) (string, error) // finds a command; nil means to search PATH
	config      *Config                      // contains the servers read so far
	ids         map[string]int               // offset of the first occurrence of each ID
	durations   *regexp.Regexp               // matches Go durations without a sign, as in schema.json
	envFiles    map[string]envFile
	commands    map[[2]string]bool   // whether each command was found, by search path and command
	unsupported []unsupportedKey     // unsupported keys of all servers, in file order
	off         func(id string) bool // reports whether the file disables a server outside the server's entry
	tracks      bool                 // at least one server has a key that selects what to track
	foreign     bool                 // the servers are where only the files of other hosts have them
	// visit, if not nil, is called for every entry; the entry is then not added to the config.
	visit func(e *entry, id string)
}

func newReader(d *document, opts Options, workspace string) *reader {
	keys := serverKeys() // computed once, because a malicious file may contain many servers
	return &reader{document: d, keys: keys, oauthKeys: oauthKeys(), names: keys.names(), effective: keys.effective().names(), expander: newExpander(opts, workspace, d.file), lookPath: opts.LookPath,
		config: &Config{}, ids: map[string]int{}, durations: regexp.MustCompile(`^(\d+(\.\d+)?(ns|us|µs|μs|ms|s|m|h))+$`),
		envFiles: map[string]envFile{}, commands: map[[2]string]bool{}}
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
		e.add("")
	case id.Value.Kind != tree.String:
		r.errorAt(id.Value.Offset, path.key(key), CodeType, needsID, "")
		e.add("")
	default:
		name := id.Value.Text // never expanded, like a server name used as a key
		if strings.TrimSpace(name) != "" {
			e.label = "Server " + quote(name)
		}
		r.checkID(name, needsID, id.Value.Offset, path.key(key))
		e.add(name)
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
		r.checkID(m.Name, "Server name must not be empty", m.Offset, at)
		if m.Value.Kind != tree.Object {
			r.errorAt(m.Value.Offset, at, CodeType, fmt.Sprintf("Server %s must be an object", quote(m.Name)), "")
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
		e.add(m.Name)
	}
}

// maxID is the maximum length of a server ID, in characters.
const maxID = 128

// checkID reports an ID that is invalid or already in use. empty is the message for an empty ID.
func (r *reader) checkID(id, empty string, offset int, path pointer) {
	if strings.TrimSpace(id) == "" {
		r.errorAt(offset, path, CodeID, empty, "")
		return
	}
	if !printableID(id) {
		r.errorAt(offset, path, CodeID,
			fmt.Sprintf("Server %s has an invalid id; expected at most %d printable characters", quote(id), maxID), "")
		return
	}
	if first, ok := r.ids[id]; ok {
		line, _ := r.Position(first)
		r.errorAt(offset, path, CodeDuplicateID, fmt.Sprintf("Duplicate server id %s found", quote(id)),
			fmt.Sprintf("it is already used on line %d", line))
		return
	}
	r.ids[id] = offset
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
	e := r.entry(v, "/index", "Index")
	keys := indexKeys()
	for _, k := range keys {
		k.fill(e, &x)
	}
	r.unknownKeys(v, e.path, e.label, keys.names(), nil)
	return x
}
