// Package foreign reads the locks of other programs: mcp-pin.lock of mcp-pin, and warden.lock of
// mcp-warden. The formats are described in docs/TOOL_DEFINITION_HASH.md and src/lockfile.js of
// GautamTalksDev/mcp-pin, and in docs/SPEC.md of DataScience-EngineeringExperts/mcp-warden.
//
// All functions are pure. The files are untrusted: a file with duplicate members, with invalid UTF-8
// or of more than [MaxFile] bytes is refused, and so is one whose hashes do not match.
package foreign

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
)

// MaxFile is the maximum size of a file in bytes.
const MaxFile = 16 << 20

// Parse returns the lock in a file of mcp-pin or of mcp-warden. One of the two is not nil.
func Parse(data []byte) (*lock.Lock, *Warden, error) {
	if len(data) > MaxFile {
		return nil, nil, fmt.Errorf("the file is larger than %d MiB", MaxFile>>20)
	}
	var head struct {
		Pin    jsontext.Value `json:"lockfileVersion"`
		Warden jsontext.Value `json:"schema_version"`
	}
	if err := decode(data, &head); err != nil {
		return nil, nil, err
	}
	switch {
	case string(head.Pin) == "1":
		l, err := parsePin(data)
		return l, nil, err
	case head.Pin != nil:
		return nil, nil, fmt.Errorf("lockfileVersion is %s; only version 1 of mcp-pin.lock is known", printable.Line(string(head.Pin), 20))
	case slices.Contains([]string{"1", "2", "3"}, string(head.Warden)):
		w, err := parseWarden(data)
		return nil, w, err
	case head.Warden != nil:
		return nil, nil, fmt.Errorf("schema_version is %s; only the versions 1 to 3 of warden.lock are known", printable.Line(string(head.Warden), 20))
	}
	return nil, nil, errors.New("it is neither a mcp-pin.lock nor a warden.lock: both lockfileVersion and schema_version are missing")
}

// decode decodes JSON. Unknown members are ignored, because they are not for us.
func decode(data []byte, into any) error {
	err := jsonv2.Unmarshal(data, into)
	if err == nil {
		return nil
	}
	var offset int64
	reason := err.Error()
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		offset, reason = syntax.ByteOffset, strings.TrimPrefix(syntax.Err.Error(), "jsontext: ")
	} else if semantic, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		offset, reason = semantic.ByteOffset, "the value has the wrong type at "+string(semantic.JSONPointer)
	}
	line := 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n"))
	return fmt.Errorf("line %d: %s", line, printable.Line(reason, 300))
}

// pinServer is one server of a mcp-pin.lock.
type pinServer struct {
	SetHash          string           `json:"setHash"`
	Tools            []pinDefinition  `json:"tools"`
	PromptsHash      string           `json:"promptsHash"`
	Prompts          *[]pinDefinition `json:"prompts"`
	InstructionsHash *string          `json:"instructionsHash"`
	Instructions     jsontext.Value   `json:"instructions"`
}

type pinDefinition struct {
	Name       string         `json:"name"`
	Hash       string         `json:"hash"`
	Definition jsontext.Value `json:"definition"`
}

// parsePin returns the lock in a mcp-pin.lock. Its servers have no launch, capabilities and resources,
// which the format does not have. mcp-pin lists with a legacy protocol version only.
func parsePin(data []byte) (*lock.Lock, error) {
	var file struct {
		Servers map[string]*pinServer `json:"servers"`
	}
	if err := decode(data, &file); err != nil {
		return nil, err
	}
	l := lock.New()
	for _, name := range slices.Sorted(maps.Keys(file.Servers)) {
		if file.Servers[name] == nil {
			return nil, fmt.Errorf("server %s is null", printable.Line(name, 100))
		}
		s, err := file.Servers[name].server(l.Hashing)
		if err != nil {
			return nil, fmt.Errorf("server %s: %w", printable.Line(name, 100), err)
		}
		l.Servers[name] = s
	}
	return l, nil
}

func (p *pinServer) server(h lock.Hashing) (*lock.Server, error) {
	o := lock.Observation{Variant: "legacy", Items: map[lock.Section][]lock.Item{lock.SectionInstructions: {}}}
	lists := map[lock.Section][]pinDefinition{lock.SectionTools: p.Tools}
	hashes := map[lock.Section]string{lock.SectionTools: p.SetHash}
	if p.Prompts != nil {
		lists[lock.SectionPrompts], hashes[lock.SectionPrompts] = *p.Prompts, p.PromptsHash
	}
	for _, section := range []lock.Section{lock.SectionTools, lock.SectionPrompts} {
		list, listed := lists[section]
		if !listed {
			continue
		}
		items := make([]lock.Item, len(list))
		for i, d := range list {
			items[i] = h.Item(section, json.RawMessage(d.Definition))
			if items[i].Problem != "" {
				return nil, fmt.Errorf("the definition of %s is invalid: %s", printable.Line(d.Name, 100), items[i].Problem)
			}
			if items[i].Hash != d.Hash || items[i].Key != d.Name {
				return nil, fmt.Errorf("the definition of %s does not match its hash and name", printable.Line(d.Name, 100))
			}
		}
		if lock.SetHash(items) != hashes[section] {
			return nil, fmt.Errorf("the hash of all %s does not match their hashes", section)
		}
		o.Items[section] = items
	}
	if p.InstructionsHash != nil {
		it := h.Item(lock.SectionInstructions, json.RawMessage(p.Instructions))
		if it.Hash != *p.InstructionsHash {
			return nil, errors.New("the instructions do not match their hash")
		}
		o.Items[lock.SectionInstructions] = []lock.Item{it}
	} else if kind := p.Instructions.Kind(); p.Instructions != nil && kind != 'n' {
		return nil, errors.New("the instructions have no hash")
	}
	s, _ := lock.Merge(o)
	return s, nil
}

// Warden is a warden.lock. It has hashes of some members of definitions, and no definitions. So it
// cannot become a lock by itself: approve of what a server offers now the items that it Approves.
type Warden struct {
	Command []string // the command and arguments of the server; empty if it has a URL
	URL     string   // of the server; may be empty

	items map[lock.Section]map[string]wardenItem
}

type wardenItem struct {
	Name        *string `json:"name"`
	URI         string  `json:"uri"`
	MIMEType    *string `json:"mime_type"`
	Description string  `json:"description_hash"`
	InputSchema string  `json:"input_schema_hash"`
	Arguments   string  `json:"arguments_hash"`
}

// parseWarden does not verify the digests of whole entries: they are over parts of the format that
// do not matter here, and whoever edits a hash can also edit them.
func parseWarden(data []byte) (*Warden, error) {
	var file struct {
		Server struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
			URL     string   `json:"url"`
		} `json:"server"`
		Tools     []wardenItem `json:"tools"`
		Resources []wardenItem `json:"resources"`
		Prompts   []wardenItem `json:"prompts"`
	}
	if err := decode(data, &file); err != nil {
		return nil, err
	}
	w := &Warden{URL: file.Server.URL, items: map[lock.Section]map[string]wardenItem{}}
	if file.Server.Command != "" {
		w.Command = append([]string{file.Server.Command}, file.Server.Args...)
	}
	for section, list := range map[lock.Section][]wardenItem{lock.SectionTools: file.Tools, lock.SectionResources: file.Resources, lock.SectionPrompts: file.Prompts} {
		byKey := map[string]wardenItem{}
		for _, it := range list {
			key := it.URI
			if section != lock.SectionResources && it.Name != nil {
				key = *it.Name
			}
			if _, twice := byKey[key]; twice || key == "" {
				return nil, fmt.Errorf("%s: %s is listed twice, or has no name", section, printable.Line(key, 100))
			}
			byKey[key] = it
		}
		w.items[section] = byKey
	}
	return w, nil
}

// Approves reports whether the lock approves an item that a server offers now. unchecked has the
// members of the definition that the format does not cover, sorted, such as "annotations": the lock
// says nothing about them.
func (w *Warden) Approves(section lock.Section, it lock.Item) (approved bool, unchecked []string) {
	entry, known := w.items[section][it.Key]
	var members map[string]jsontext.Value
	if !known || it.Problem != "" || jsonv2.Unmarshal(it.Definition, &members) != nil {
		return false, nil
	}
	covered := []string{"name", "description"}
	approved = entry.Description == hash(members["description"], `""`)
	switch section {
	case lock.SectionTools:
		covered = append(covered, "inputSchema")
		approved = approved && entry.InputSchema == hash(members["inputSchema"], `{}`)
	case lock.SectionPrompts:
		covered = append(covered, "arguments")
		approved = approved && slices.Contains([]string{hash(members["arguments"], `[]`), hash(completed(members["arguments"]), `[]`)}, entry.Arguments)
	case lock.SectionResources:
		covered = append(covered, "uri", "mimeType")
		approved = approved && equal(members["name"], entry.Name) && equal(members["mimeType"], entry.MIMEType)
	}
	if !approved {
		return false, nil
	}
	for name := range members {
		if !slices.Contains(covered, name) {
			unchecked = append(unchecked, name)
		}
	}
	slices.Sort(unchecked)
	return true, unchecked
}

// completed returns the arguments of a prompt as the SDK that mcp-warden uses writes them: optional
// members that are absent become null.
func completed(arguments jsontext.Value) jsontext.Value {
	var list []map[string]jsontext.Value
	if arguments == nil || jsonv2.Unmarshal(arguments, &list) != nil {
		return arguments
	}
	for _, argument := range list {
		for _, name := range []string{"description", "required"} {
			if argument != nil && argument[name] == nil {
				argument[name] = jsontext.Value("null")
			}
		}
	}
	all, err := jsonv2.Marshal(list)
	if err != nil {
		return arguments
	}
	return all
}

// hash returns the hash of a member, or of absent if the member is absent or null.
func hash(value jsontext.Value, absent string) string {
	canonical := jsontext.Value(bytes.Clone(value))
	if value == nil || value.Kind() == 'n' {
		canonical = jsontext.Value(absent)
	}
	if canonical.Canonicalize() != nil {
		return "invalid"
	}
	digest := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(digest[:])
}

// equal compares a member with a text, either of which may be absent or null.
func equal(value jsontext.Value, text *string) bool {
	if value == nil || value.Kind() == 'n' {
		return text == nil
	}
	var s string
	return text != nil && jsonv2.Unmarshal(value, &s) == nil && s == *text
}
