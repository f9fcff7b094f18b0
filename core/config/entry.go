package config

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/suggest"
)

// An entry is an object with keys, such as a server, while it is being read.
type entry struct {
	*reader
	object  *tree.Node
	path    pointer
	label   string                  // how messages refer to the entry: Server "docs"
	members map[string]*tree.Member // without members whose value is null or "", which count as absent

	server  *Server  // the server being read; nil if the object is not a server
	missing *clauses // points to Missing of the server or webhook being read; otherwise nil
}

func (r *reader) entry(object *tree.Node, path pointer, label string) *entry {
	e := &entry{reader: r, object: object, path: path, label: label, members: object.Index()}
	for name, m := range e.members {
		if empty(m.Value) && (m.Value.Kind == tree.Null || name != "id") {
			delete(e.members, name)
		}
	}
	return e
}

// empty reports whether a value counts as absent.
func empty(v *tree.Node) bool {
	return v.Kind == tree.Null || v.Kind == tree.String && v.Text == ""
}

// inside returns an entry for the object in one of e's fields.
func (e *entry) inside(f field) *entry {
	in := e.reader.entry(f.value, f.path, e.label)
	in.server, in.missing = e.server, e.missing
	return in
}

// add reads the entry as a server and adds it to the config, unless its id is invalid. It reads all
// keys even after an error, so that all problems are reported together.
func (e *entry) add(id string, valid bool) {
	e.disown()
	if e.visit != nil {
		if valid {
			e.visit(e, id)
		}
		return
	}
	s := Server{ID: id}
	e.server, e.missing = &s, (*clauses)(&s.Missing)
	s.Enabled = e.enabled() && !e.off(id) // first, because anything may be missing for a disabled server
	s.Description = e.description()
	e.expander.secrets = nil
	e.expander.forgetUses() // ignore references in the description, which is not sent anywhere
	e.transport(&s)         // before the keys that depend on the transport
	for _, free := range []bool{false, true} {
		for _, k := range e.keys {
			if k.free == free {
				k.fill(e, &s)
			}
		}
		if !free {
			s.Secrets = e.expander.secrets
		}
	}
	for name, track := range map[string]*bool{"trackResources": &s.TrackResources, "trackTools": &s.TrackTools, "trackPrompts": &s.TrackPrompts, "trackSkills": &s.TrackSkills} {
		if _, ok := e.find(name); ok {
			e.tracks = true
		} else {
			*track = s.TrackResources
		}
	}
	if f, ok := e.find(e.keys.get("protocol").spellings...); ok && s.Protocol == ProtocolModern && s.Transport == TransportSSE {
		e.errorAt(f.value.Offset, f.path, CodeConflict,
			fmt.Sprintf(`%s has %q "modern", which the sse transport does not support`, e.label, f.name),
			`use type "http", or set the protocol to "auto"`)
	}
	e.ineffective(&s)
	e.reportUnsupported()
	e.unknownKeys(e.object, e.path, e.label, e.names, foreignKeys())
	s.Intent = e.intent(id, e.effective)
	if valid {
		e.config.Servers = append(e.config.Servers, s)
	}
}

// disown removes the values of other programs from keys that mcptrack has, too: empty values of another
// type, and a second name of the same transport.
func (e *entry) disown() {
	if e.form == own {
		return
	}
	for _, key := range []string{"args", "env", "headers"} {
		for _, name := range e.keys.get(key).names() {
			f, ok := e.field(name)
			if _, filled := e.present(name); ok && !filled {
				delete(e.members, f.name)
			}
		}
	}
	kind, _ := e.field("type")
	if second, ok := e.field("transport"); ok && kind.value != nil {
		if t := transportTypes()[suggest.Plain(kind.value.Text)]; t != "" && t == transportTypes()[suggest.Plain(second.value.Text)] {
			delete(e.members, second.name)
		}
	}
	for _, k := range e.keys {
		f, ok := e.first(k.name)
		if !ok || !k.mixed || k.shaped(f.value) {
			continue
		}
		delete(e.members, f.name)
		if k.is != nil {
			continue
		}
		hint := didYouMean(f.value.Text, k.words)
		if k.least > 0 && f.value.Kind == tree.Number {
			hint = durationUnits
		}
		e.warnAt(f.key, f.path, CodeForeign, fmt.Sprintf("%s has %q of another program, which mcptrack does not read", e.label, f.name), hint)
	}
}

// isBuiltin reports whether the entry refers to a built-in component of its host, which other
// programs cannot connect to.
func (e *entry) isBuiltin() bool {
	if f, ok := e.field("type"); ok { // for example "builtin" in Goose
		for _, name := range []string{"builtin", "platform", "frontend", "inlinepython", "sdk", "inmemory", "claudeaiproxy", "sseide", "wside"} {
			if suggest.Plain(f.value.Text) == name {
				return true
			}
		}
	}
	_, hasURL := e.first("url")
	_, hasCommand := e.first("command")
	if hasCommand || hasURL {
		return false
	}
	if f, ok := e.field("source"); ok && f.value.Text == "extension" { // an entry written by Zed
		return true
	}
	if _, ok := e.field("uses"); ok { // an entry written by Continue
		e.warnAt(e.object.Offset, e.path, CodeUnsupported, e.label+` has "uses" and is skipped; mcptrack does not fetch blocks from the Continue hub`, "")
		return true
	}
	if !strings.HasPrefix(string(e.path), "/context_servers/") {
		return false
	}
	e.warnAt(e.object.Offset, e.path, CodeUnsupported,
		e.label+` has neither "command" nor "url" and is skipped; only a Zed extension can start it`, "")
	return true
}

// description reads the description. References that cannot be expanded are left unchanged, because
// a description must not make a server unusable.
func (e *entry) description() string {
	f, ok := e.find("description")
	if !ok {
		return ""
	}
	if f.value.Kind != tree.String {
		e.invalid(f, "string", "")
		return ""
	}
	if value, errs := e.expander.expand(f.value.Text); len(errs) == 0 {
		return value
	}
	return f.value.Text
}

// enabled reads the keys "enabled" and "disabled".
func (e *entry) enabled() bool {
	enabled, disabled := e.boolean(true, "enabled"), e.boolean(false, "disabled")
	on, hasOn := e.find("enabled")
	off, hasOff := e.find("disabled")
	if !hasOff {
		return enabled
	}
	if !hasOn {
		return !disabled
	}
	if on.value.Kind == tree.Bool && off.value.Kind == tree.Bool && enabled == disabled {
		later := later(on, off)
		e.errorAt(later.key, later.path, CodeConflict,
			fmt.Sprintf(`%s has "enabled" and "disabled" that contradict each other`, e.label), "keep one of them")
	}
	return enabled
}

// ineffective reports keys that the server's transport does not use, and clears their fields.
// Headers of a stdio server are an error, because they are credentials that would never be sent.
func (e *entry) ineffective(s *Server) {
	for _, k := range e.keys {
		if k.use.includes(s.Transport) {
			continue
		}
		k.setZero(s)
		for _, name := range k.names() {
			f, ok := e.present(name)
			if !ok || f.value.Kind == tree.Bool && f.value.True() == (k.def == "true") {
				continue
			}
			if _, hasCommand := e.first("command"); k.use == byURLs && !hasCommand && !s.Enabled {
				continue // the entry may disable a remote server from another file
			}
			switch k.use {
			case byURLs:
				e.errorAt(f.key, f.path, CodeConflict, fmt.Sprintf(`%s has %q, but uses the stdio transport`, e.label, name),
					`pass credentials to a program in "env"`)
			case byPrograms:
				e.warnAt(f.key, f.path, CodeIneffective, fmt.Sprintf("%s has %q, which has no effect on a server over HTTP", e.label, name), "")
			case byCatalogs:
				e.warnAt(f.key, f.path, CodeIneffective, fmt.Sprintf(`%s has %q, which has no effect on a server that is not a catalog`, e.label, name),
					`for a server that cannot push, use "pollInterval"; for a catalog, set "type": "catalog"`)
			default:
				hint := "remove it: a catalog describes HTTP APIs, which are not tracked; the gateway serves them as tools"
				if name == "pollInterval" {
					hint = `use "catalogInterval"`
				}
				e.warnAt(f.key, f.path, CodeIneffective, fmt.Sprintf("%s has %q, which has no effect on a catalog", e.label, name), hint)
			}
		}
	}
	if s.Transport == TransportCatalog {
		s.Read, s.Mode, s.Protocol = ReadNone, ModeAuto, ProtocolAuto
	}
}

// A field is one key of an entry, with its value.
type field struct {
	name  string // spelled as in the file
	key   int    // offset of the key in the source
	value *tree.Node
	path  pointer
}

func (e *entry) field(name string) (field, bool) {
	m := e.members[name]
	if m == nil {
		return field{}, false
	}
	return field{name: name, key: m.Offset, value: m.Value, path: e.path.key(name)}, true
}

// find returns the field of a key under any of its spellings. If several spellings are present with
// different values, it reports an error.
func (e *entry) find(spellings ...string) (found field, ok bool) {
	for _, name := range spellings {
		f, has := e.field(name)
		if !has {
			continue
		}
		if !ok {
			found, ok = f, true
			continue
		}
		if f.value.Kind == found.value.Kind && f.value.Text == found.value.Text {
			continue
		}
		later := later(f, found)
		e.errorAt(later.key, later.path, CodeConflict,
			fmt.Sprintf("%s has both %q and %q with different values", e.label, found.name, f.name), "they have the same meaning; keep one of them")
	}
	return found, ok
}

// first returns the field with the first spelling of a server's key that is present. Unlike find,
// it does not report other spellings.
func (e *entry) first(name string) (field, bool) {
	for _, spelling := range e.keys.get(name).spellings {
		if f, ok := e.field(spelling); ok {
			return f, true
		}
	}
	return field{}, false
}

// later returns the field whose key appears later in the file.
func later(a, b field) field {
	if a.key > b.key {
		return a
	}
	return b
}

// present returns the field of a key, unless its value is an empty list or object.
func (e *entry) present(name string) (field, bool) {
	f, ok := e.field(name)
	if !ok || f.value.Kind == tree.Object && len(f.value.Members) == 0 || f.value.Kind == tree.List && len(f.value.Items) == 0 {
		return field{}, false
	}
	return f, true
}

func (e *entry) invalid(f field, expected, hint string) {
	e.errorAt(f.value.Offset, f.path, CodeType, fmt.Sprintf("%s has invalid %q; expected %s", e.label, f.name, expected), hint)
}

// clauses lists what a server or webhook needs but is missing on this machine.
type clauses []string

const maxClauses = 10

// add adds a clause, unless it is already present or the list is full.
func (c *clauses) add(clause string) {
	if len(*c) < maxClauses && !slices.Contains(*c, clause) {
		*c = append(*c, clause)
	}
}

// lacks reports that something needed by the server or webhook is missing on this machine. The
// problem is a warning, because the other servers can be used. For a disabled server nothing is
// reported.
func (e *entry) lacks(v *tree.Node, path pointer, code Code, clause, hint string) {
	message := e.label + ": " + clause
	switch {
	case e.missing == nil:
		e.errorAt(v.Offset, path, code, message, hint)
	case e.server == nil || e.server.Enabled:
		e.warnAt(v.Offset, path, code, message, hint)
		e.missing.add(clause)
	}
}

// invalidValue reports an invalid string. If the string contains a reference, the error is not in
// the file: a valid value is missing on this machine.
func (e *entry) invalidValue(v *tree.Node, path pointer, code Code, clause, hint string) {
	if e.expander.refers(v.Text) {
		e.lacks(v, path, code, clause, hint)
		return
	}
	e.errorAt(v.Offset, path, code, e.label+" has "+clause, hint)
}

// expand returns a string with its references expanded. It reports references that cannot be
// expanded, using the given name for the string.
func (e *entry) expand(v *tree.Node, path pointer, name string) (string, bool) {
	value, errs := e.expander.expand(v.Text)
	for _, err := range errs {
		clause := quote(name) + " " + err.message
		switch err.code {
		case CodeTooLarge:
			e.errorAt(v.Offset, path, err.code, e.label+": "+clause, err.hint)
		case CodeSecret:
			e.warnAt(v.Offset, path, err.code, e.label+": "+clause, err.hint)
			fallthrough
		default:
			e.lacks(v, path, err.code, clause, err.hint)
		}
	}
	return value, len(errs) == 0
}

func (e *entry) text(spellings ...string) (value string, f field, ok bool) {
	f, ok = e.find(spellings...)
	if !ok {
		return "", f, false
	}
	if f.value.Kind != tree.String {
		e.invalid(f, "string", "")
		return "", f, false
	}
	value, ok = e.expand(f.value, f.path, f.name)
	return value, f, ok
}

// boolean returns the boolean value of a key, or the default if it is absent or invalid. null and ""
// are invalid, except for enabled and disabled, which other hosts may write in this way.
func (e *entry) boolean(byDefault bool, spellings ...string) bool {
	for _, name := range spellings {
		if m := e.object.Get(name); m != nil && empty(m.Value) && name != "enabled" && name != "disabled" {
			e.invalid(field{name: name, value: m.Value, path: e.path.key(name)}, "boolean", "write true or false, or remove the key")
			return byDefault
		}
	}
	f, ok := e.find(spellings...)
	switch {
	case !ok:
		return byDefault
	case f.value.Kind == tree.Bool:
		return f.value.True()
	case f.value.Kind == tree.String:
		e.invalid(f, "boolean", "write true or false, without quotes")
	default:
		e.invalid(f, "boolean", "write true or false")
	}
	return byDefault
}

// shared reads the key "shared", a boolean or one of two words.
func (e *entry) shared(spellings []string, s *Server) {
	if f, ok := e.find(spellings...); ok && f.value.Kind == tree.String {
		if word := e.choice("", []string{string(SharedByFolder), string(SharedByMachine)}, spellings...); word == string(SharedByMachine) {
			s.Sharing = SharedByMachine
		}
		return
	}
	if !e.boolean(true, spellings...) {
		s.Sharing = NotShared
	}
}

// choice returns the value of a key if it is one of the words. If it is absent or invalid, choice
// returns the default.
func (e *entry) choice(byDefault string, words []string, spellings ...string) string {
	value, f, ok := e.text(spellings...)
	switch {
	case !ok:
	case slices.Contains(words, value):
		return value
	default:
		e.notOneOf(f, value, words)
	}
	return byDefault
}

func (e *entry) notOneOf(f field, value string, words []string) {
	var quoted []string
	for _, word := range slices.Sorted(slices.Values(words)) {
		quoted = append(quoted, strconv.Quote(word))
	}
	hint := ""
	// Do not compare a value that contains a reference, because the hint could reveal a secret.
	if f.value.Text == value {
		hint = didYouMean(value, words)
	}
	e.invalidValue(f.value, f.path, CodeValue, fmt.Sprintf("invalid %q; expected one of %s", f.name, strings.Join(quoted, ", ")), hint)
}

// didYouMean returns the hint that a text is probably a misspelling of one of the words, or "".
func didYouMean(text string, words []string) string {
	if near := suggest.Nearest(text, words); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

const durationUnits = `write the unit: "30s", "500ms" or "2m"`

// duration returns the duration value of a key, which must not be less than least, or the default
// if it is absent or invalid. If never is set, "0" is allowed and returned as -1.
func (e *entry) duration(name string, byDefault, least time.Duration, never bool) time.Duration {
	f, ok := e.find(name)
	if !ok {
		return byDefault
	}
	if f.value.Kind != tree.String {
		hint := ""
		if f.value.Kind == tree.Number {
			hint = durationUnits
		}
		e.invalid(f, "duration", hint)
		return byDefault
	}
	value, ok := e.expand(f.value, f.path, f.name)
	if !ok {
		return byDefault
	}
	if never && value == "0" {
		return -1
	}
	if !e.durations.MatchString(value) {
		e.invalidValue(f.value, f.path, CodeDuration, fmt.Sprintf("invalid %q; expected duration", f.name), durationUnits)
		return byDefault
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < least {
		bound := fmt.Sprintf("at least %s", least)
		if err != nil {
			bound = "less than 292 years"
		}
		e.invalidValue(f.value, f.path, CodeRange, fmt.Sprintf("invalid %q; expected %s", f.name, bound), "")
		return byDefault
	}
	return d
}

// list returns a list of strings. If words is not nil, each string must be one of the words. If
// globs is not empty, each string must be a glob, and globs describes what the globs match.
func (e *entry) list(name string, words []string, globs string) []string {
	values, raw := e.strings(name, func(i int) string {
		return fmt.Sprintf("%s has invalid %q at index %d; expected string", e.label, name, i)
	})
	for i, value := range values {
		path := e.path.key(name).index(i)
		switch {
		case words != nil && !slices.Contains(words, value):
			e.notOneOf(field{name: name, value: raw[i], path: path}, value, words)
		case globs != "" && (value == "" || !glob.Valid(value)):
			hint := `* matches within a path segment, ** across segments: "file:///docs/**"`
			if globs == "server ids" {
				hint = `* matches any text: "team-*"`
			}
			e.invalidValue(raw[i], e.path.key(name), CodeGlob, fmt.Sprintf("invalid %q; expected globs for %s", name, globs), hint)
		}
	}
	return values
}

// strings returns the valid strings in a list, and their nodes in raw. It reports invalid elements,
// using the message that badElement returns, and strings that cannot be expanded.
func (e *entry) strings(name string, badElement func(index int) string) (values []string, raw []*tree.Node) {
	f, ok := e.find(name)
	if !ok {
		return nil, nil
	}
	if f.value.Kind != tree.List {
		hint := ""
		if f.value.Kind == tree.String {
			hint = `write a list: ["…"]`
		}
		e.invalid(f, "array of strings", hint)
		return nil, nil
	}
	return e.items(f, f.value.Items, 0, badElement)
}

// items does the same as strings for the given items of a list; from is the index of the first
// item, for use in messages.
func (e *entry) items(f field, items []*tree.Node, from int, badElement func(index int) string) (values []string, raw []*tree.Node) {
	for i, v := range items {
		i += from
		if v.Kind != tree.String {
			hint := ""
			if v.Kind == tree.Number || v.Kind == tree.Bool {
				hint = fmt.Sprintf("write %q", v.Text)
			}
			e.errorAt(v.Offset, f.path.index(i), CodeType, badElement(i), hint)
			continue
		}
		if value, ok := e.expand(v, f.path.index(i), fmt.Sprintf("%s[%d]", f.name, i)); ok {
			values, raw = append(values, value), append(raw, v)
		}
	}
	return values, raw
}

// unknownKeys reports a warning for each key that is neither in own nor in foreign, which lists the
// keys of other programs to be ignored.
func (r *reader) unknownKeys(object *tree.Node, path pointer, label string, own, foreign []string) {
	for _, m := range object.Members {
		if r.warnings == maxProblems || slices.Contains(own, m.Name) || slices.Contains(foreign, m.Name) || isComment(m.Name) {
			continue
		}
		hint := ""
		meant := misnamed(m.Name)
		if !slices.Contains(own, meant) {
			meant = suggest.Nearest(m.Name, own)
		}
		if meant != "" {
			hint = fmt.Sprintf("did you mean %q?", meant)
		}
		r.warnAt(m.Offset, path.key(m.Name), CodeUnknownKey, fmt.Sprintf("%s has unknown key %s", label, quote(m.Name)), hint)
	}
}

// firstMembers yields the first member with each name, in file order. Duplicates are reported by
// duplicateKeys.
func firstMembers(object *tree.Node) iter.Seq2[string, *tree.Member] {
	return func(yield func(string, *tree.Member) bool) {
		first := object.Index()
		for _, m := range object.Members {
			if first[m.Name] == m && !yield(m.Name, m) {
				return
			}
		}
	}
}

// warnSecret reports a warning about a secret in the file, without quoting the secret.
func (e *entry) warnSecret(offset int, path pointer, where string) {
	e.warnAt(offset, path, CodeSecret, fmt.Sprintf("%s has a secret in plain text in %s", e.label, where),
		"store it in an environment variable and write ${NAME}")
}

// plaintext reports a warning if a named value, such as a header, contains a secret. It checks the
// text before expansion, because the value of a reference is not stored in the file.
func (e *entry) plaintext(name string, v *tree.Node, path pointer, where string) {
	if len(credential.Find(name, v.Text)) > 0 {
		e.warnSecret(v.Offset, path, where)
	}
}

func (e *entry) secretArgs(args []*tree.Node) {
	for i, spans := range credential.FindArgs(texts(args)) {
		if len(spans) > 0 {
			e.warnSecret(args[i].Offset, e.path.key("args").index(i), `"args"`)
		}
	}
}

func (e *entry) secretURL(raw string, f field) {
	if len(credential.FindURL(raw)) > 0 {
		e.warnSecret(f.value.Offset, f.path, quote(f.name))
	}
}

func texts(nodes []*tree.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.Text
	}
	return out
}
