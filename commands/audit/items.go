package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/skill"
)

// A finding is a rule that an item broke. item is empty for the server itself.
type finding struct{ rule, item, message string }

// findings are the findings on one server. The zero value is ready to use.
type findings []finding

// add is called for each rule; inlined, it would take about 20 KB.
//
//go:noinline
func (f *findings) add(rule, item, format string, args ...any) {
	*f = append(*f, finding{rule, item, fmt.Sprintf(format, args...)})
}

// itemName returns the name of an item in findings.
func itemName(k catalog.Kind, key string) string {
	return strings.TrimSuffix(string(k), "s") + "/" + key
}

// An item is one element of a list.
type item struct {
	name string // see itemName
	key  string // name or URI; empty if it has none
	hash string // of the definition; empty if the definition cannot be hashed
	raw  json.RawMessage
}

// newItem returns the item for the JSON that a server sent as the element of a list at an index. problem
// says why clients cannot use it, or is empty.
func newItem(k catalog.Kind, raw json.RawMessage, index int) (it item, problem string) {
	hashed := lock.DefaultHashing().Item(section(k), raw)
	it = item{key: hashed.Key, hash: hashed.Hash, raw: raw}
	it.name = itemName(k, cmp.Or(hashed.Key, fmt.Sprintf("#%d", index+1)))
	return it, hashed.Problem
}

func section(k catalog.Kind) lock.Section { return lock.Section(k) }

// checkList checks the items of one list on their own and among each other. It stops when ctx is done.
func checkList(ctx context.Context, k catalog.Kind, items []item) findings {
	var found findings
	var names []string
	seen := map[string]bool{}
	for _, it := range items {
		if ctx.Err() != nil {
			return found
		}
		if it.key != "" && seen[it.key] {
			found.add("duplicate", it.name, "%s lists it more than once", k.Method())
		}
		seen[it.key] = true
		if it.hash == "" {
			continue // reported as malformed, and unsafe to look into
		}
		names = append(names, it.key)
		found.item(k, it)
	}
	if k == catalog.Tools || k == catalog.Prompts {
		for _, pair := range lock.Twins(names) {
			found.add("twins", itemName(k, pair[1]), "looks like %s", printable.Marked(pair[0]))
		}
	}
	return found
}

// A definition has the members of items that are checked. A member of the wrong type is absent.
type definition struct {
	Title        string
	Description  string
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	Annotations  map[string]json.RawMessage
	Arguments    []struct{ Name, Description string }
}

func (d *definition) read(raw json.RawMessage) {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(raw, &members) // the definition was parsed before
	for name, into := range map[string]any{"title": &d.Title, "description": &d.Description, "annotations": &d.Annotations, "arguments": &d.Arguments} {
		_ = json.Unmarshal(members[name], into)
	}
	d.InputSchema, d.OutputSchema = members["inputSchema"], members["outputSchema"]
}

func (f *findings) item(k catalog.Kind, it item) {
	var d definition
	d.read(it.raw)
	if e, err := skill.Parse(it.raw); k == catalog.Skills && err == nil {
		d.Description = e.Description
	}
	if k != catalog.Resources && strings.TrimSpace(d.Description) == "" {
		f.add("description", it.name, "has no description")
	}
	var unnamed []string
	for _, arg := range d.Arguments {
		if arg.Description == "" {
			unnamed = append(unnamed, arg.Name)
		}
	}
	if k == catalog.Tools {
		f.tool(it, d)
		unnamed = undescribed(d.InputSchema)
	}
	if len(unnamed) > 0 {
		f.add("parameter", it.name, "no description for %s", printable.Line(cli.Join(unnamed, 5), 300))
	}
	var titled string
	_ = json.Unmarshal(d.Annotations["title"], &titled)
	if (k == catalog.Tools || k == catalog.Prompts) && d.Title == "" && titled == "" {
		f.add("title", it.name, "has no title")
	}
	if n := size(it.raw); n > largeItem {
		f.add("item-size", it.name, "the definition has %d bytes, about %d tokens", n, n/bytesPerToken)
	}
	f.texts(it.name, it.raw)
}

// toolName matches the names that the protocol allows (2025-11-25, server/tools).
func toolName() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`) }

func (f *findings) tool(it item, d definition) {
	if !toolName().MatchString(it.key) {
		f.add("name", it.name, "the name has more than 128 characters, or others than A-Z, a-z, 0-9, dot, underscore and hyphen")
	}
	if d.InputSchema == nil {
		f.add("schema", it.name, "has no inputSchema")
	} else if problem := checkSchema(d.InputSchema); problem != "" {
		f.add("schema", it.name, "inputSchema %s", problem)
	}
	if d.OutputSchema != nil {
		if problem := checkSchema(d.OutputSchema); problem != "" {
			f.add("schema", it.name, "outputSchema %s", problem)
		}
	}
	hints := map[string]bool{}
	for _, hint := range []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} {
		raw, present := d.Annotations[hint]
		if !present {
			continue
		}
		var value *bool
		if json.Unmarshal(raw, &value) != nil || value == nil {
			f.add("contradiction", it.name, "%s is not true or false", hint)
			continue
		}
		hints[hint] = *value
	}
	if hints["readOnlyHint"] && hints["destructiveHint"] {
		f.add("contradiction", it.name, "readOnlyHint and destructiveHint are both true")
	}
	if _, said := d.Annotations["readOnlyHint"]; !said {
		f.add("annotations", it.name, "does not say whether it only reads (readOnlyHint)")
	}
}

// texts checks all texts of a definition.
func (f *findings) texts(item string, raw json.RawMessage) {
	ruleOf := map[string]string{lock.Hidden: "hidden", lock.Script: "hidden", lock.Phrase: "phrase", lock.Secret: "secret", lock.Link: "link"}
	first, more := map[string]lock.Reason{}, map[string]int{}
	var found []string // rules, in the order of the texts
	for _, r := range lock.Reasons(nil, raw) {
		rule := ruleOf[r.Kind]
		if _, again := first[rule]; again {
			more[rule]++
			continue
		}
		first[rule] = r
		found = append(found, rule)
	}
	for _, rule := range found {
		r, others := first[rule], ""
		if n := more[rule]; n > 0 {
			others = fmt.Sprintf(", and in %d more places", n)
		}
		where := ""
		if r.Pointer != "" {
			where = " (" + r.Pointer + ")"
		}
		f.add(rule, item, "\u201c%s\u201d%s%s", r.Excerpt, where, others)
	}
}

// size returns the size of JSON in bytes, without white space.
func size(raw json.RawMessage) int {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return len(raw)
	}
	return b.Len()
}
