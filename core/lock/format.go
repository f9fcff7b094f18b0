package lock

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	// Version is the version of the file format.
	Version = 1
	// MaxFile is the maximum size of a lock file in bytes.
	MaxFile = 64 << 20
	// MaxItems is the maximum number of elements of a list or object of a lock file, such as the tools
	// of a server. It equals the maximum length of a list of a server.
	MaxItems = 10_000
)

// FileError is a defect of a lock file.
type FileError struct {
	Line, Column int    // of malformed JSON, from 1; the column counts characters. 0 for other defects
	Problem      string // printable, one line
	Advice       string // what to do; printable, one line
}

func (e *FileError) Error() string {
	text := e.Problem + "; " + e.Advice
	if e.Line == 0 {
		return text
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, text)
}

// The advice for the defects of a lock file.
const (
	adviseRestore = "restore it from version control, or delete it and run: mcptrack lock"
	adviseEdited  = "it was edited by hand or merged incorrectly; " + adviseRestore
	adviseUpgrade = "a newer version of mcptrack may have written it; upgrade mcptrack"
)

// file is the JSON of a lock file.
type file struct {
	Version int                 `json:"lockVersion"`
	Hash    fileHash            `json:"hash"`
	Servers object[*fileServer] `json:"servers"`
}

type fileHash struct {
	Algorithm string       `json:"algorithm"`
	Exclude   list[string] `json:"exclude"`
}

type fileServer struct {
	Policy       Policy              `json:"policy,omitzero"`
	Hashes       object[fileSum]     `json:"hashes"` // of each section
	Launch       *fileItem           `json:"launch,omitzero"`
	Capabilities *fileItem           `json:"capabilities,omitzero"`
	Instructions *fileItem           `json:"instructions,omitzero"`
	Tools        object[fileItem]    `json:"tools,omitzero"` // by key, as the next ones
	Prompts      object[fileItem]    `json:"prompts,omitzero"`
	Skills       object[fileItem]    `json:"skills,omitzero"`
	Templates    object[fileItem]    `json:"templates,omitzero"`
	Resources    object[fileItem]    `json:"resources,omitzero"`
	Contents     object[fileItem]    `json:"contents,omitzero"`
	Rejected     list[fileRejection] `json:"rejected,omitzero"`
}

// fileItem is an item. It has no members if the section of the only item, such as the launch, is empty.
type fileItem struct {
	fileDefinition
	Others list[fileDefinition] `json:"others,omitzero"` // more definitions of the same item, which are approved, too
}

type fileDefinition struct {
	Hash       fileSum        `json:"hash,omitzero"`
	Definition jsontext.Value `json:"definition,omitzero"`
	Text       jsontext.Value `json:"text,omitzero"` // in place of the definition, for instructions
}

type fileRejection struct {
	Section Section `json:"section"`
	Key     string  `json:"key,omitzero"`
	Hash    fileSum `json:"hash,omitzero"`
}

// fileSum is a SHA-256 in hexadecimal digits. In a file it begins with "sha256:".
type fileSum string

// MarshalText implements [encoding.TextMarshaler].
func (s fileSum) MarshalText() ([]byte, error) { return []byte(sumPrefix + string(s)), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *fileSum) UnmarshalText(text []byte) error {
	hex, found := strings.CutPrefix(string(text), sumPrefix)
	if !found || !isHash(hex) {
		return fmt.Errorf("a hash is %s and 64 hexadecimal digits", sumPrefix)
	}
	*s = fileSum(hex)
	return nil
}

const sumPrefix = "sha256:"

// only returns the item of a section with at most one; nil for other sections.
func (f *fileServer) only(section Section) **fileItem {
	return map[Section]**fileItem{SectionLaunch: &f.Launch, SectionCapabilities: &f.Capabilities, SectionInstructions: &f.Instructions}[section]
}

// named returns the items of a section by key; nil for a section with at most one.
func (f *fileServer) named(section Section) *object[fileItem] {
	return map[Section]*object[fileItem]{SectionTools: &f.Tools, SectionPrompts: &f.Prompts, SectionSkills: &f.Skills, SectionTemplates: &f.Templates,
		SectionResources: &f.Resources, SectionContents: &f.Contents}[section]
}

// placed is a definition of a server, and where it is.
type placed struct {
	fileDefinition
	pointer jsontext.Pointer // below the server
	key     string           // empty if the section has at most one item
}

// definitions returns all definitions of a section, sorted by key. It is nil if the section is absent.
func (f *fileServer) definitions(section Section) (all []placed) {
	add := func(it fileItem, pointer jsontext.Pointer, key string) {
		all = append(all, placed{it.fileDefinition, pointer, key})
		for i, other := range it.Others {
			all = append(all, placed{other, pointer + "/others/" + jsontext.Pointer(strconv.Itoa(i)), key})
		}
	}
	pointer := jsontext.Pointer("/" + section)
	if only := f.only(section); only != nil {
		switch {
		case *only == nil:
		case (*only).empty():
			all = []placed{}
		default:
			add(**only, pointer, "")
		}
		return all
	}
	items := *f.named(section)
	if items != nil {
		all = []placed{}
	}
	for _, key := range slices.Sorted(maps.Keys(items)) {
		add(items[key], pointer.AppendToken(key), key)
	}
	return all
}

func (it *fileItem) empty() bool {
	return it.Hash == "" && it.Definition == nil && it.Text == nil && it.Others == nil
}

// add adds a definition of an item. The definitions of one key are added one after the other.
func (f *fileServer) add(section Section, it Item) {
	d := fileDefinition{Hash: fileSum(it.Hash)}
	if section == SectionInstructions {
		d.Text = jsontext.Value(it.Definition)
	} else {
		d.Definition = jsontext.Value(it.Definition)
	}
	if only := f.only(section); only != nil {
		if (*only).empty() {
			(*only).fileDefinition = d
		} else {
			(*only).Others = append((*only).Others, d)
		}
		return
	}
	items := *f.named(section)
	if known, ok := items[it.Key]; ok {
		known.Others = append(known.Others, d)
		items[it.Key] = known
	} else {
		items[it.Key] = fileItem{fileDefinition: d}
	}
}

// list is a JSON array with at most [MaxItems] elements.
type list[T any] []T

// UnmarshalJSONFrom implements [jsonv2.UnmarshalerFrom]. It stops at the limit, so that a small file
// cannot need much memory.
func (l *list[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '[' {
		return errors.New("a list is expected")
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	*l = list[T]{}
	for dec.PeekKind() != ']' {
		if len(*l) == MaxItems {
			return errTooMany()
		}
		var element T
		if err := jsonv2.UnmarshalDecode(dec, &element); err != nil {
			return err
		}
		*l = append(*l, element)
	}
	_, err := dec.ReadToken()
	return err
}

// object is a JSON object with at most [MaxItems] members.
type object[T any] map[string]T

// UnmarshalJSONFrom implements [jsonv2.UnmarshalerFrom].
func (o *object[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return errors.New("an object is expected")
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	*o = object[T]{}
	for dec.PeekKind() != '}' {
		if len(*o) == MaxItems {
			return errTooMany()
		}
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		key := name.String()
		var value T
		if err := jsonv2.UnmarshalDecode(dec, &value); err != nil {
			return err
		}
		(*o)[key] = value
	}
	_, err := dec.ReadToken()
	return err
}

func errTooMany() error { return fmt.Errorf("there are more than %d elements", MaxItems) }

func errTooLarge() error {
	return &FileError{Problem: fmt.Sprintf("the file is larger than %d MiB", MaxFile>>20), Advice: adviseRestore}
}

// Parse returns the lock in a file's content. All errors are of type [*FileError].
func Parse(data []byte) (*Lock, error) {
	if len(data) > MaxFile {
		return nil, errTooLarge()
	}
	var head struct {
		Version jsontext.Value `json:"lockVersion"`
	}
	if err := jsonv2.Unmarshal(data, &head); err != nil {
		return nil, syntaxError(data, err)
	}
	switch version := string(head.Version); version {
	case strconv.Itoa(Version):
	case "":
		return nil, &FileError{Problem: "the file has no lockVersion, so it is not a lock of mcptrack", Advice: adviseRestore}
	default:
		return nil, &FileError{Problem: "lockVersion is " + printable.Line(version, 20) + "; this version of mcptrack reads only " + strconv.Itoa(Version), Advice: "upgrade mcptrack"}
	}
	var f file
	if err := jsonv2.Unmarshal(data, &f, jsonv2.RejectUnknownMembers(true)); err != nil {
		return nil, syntaxError(data, err)
	}
	l, d := f.lock()
	if d != nil {
		e := &FileError{Problem: printable.Line(d.problem, 300), Advice: d.advice}
		if d.pointer != "" {
			e.Problem += " at " + printable.Line(string(d.pointer), 200)
		}
		return nil, e
	}
	return l, nil
}

// defect is something wrong at a place of a file.
type defect struct {
	pointer         jsontext.Pointer
	problem, advice string
}

// lock checks what the types of a file do not, and returns its lock.
func (f *file) lock() (*Lock, *defect) {
	if f.Hash.Algorithm != algorithm {
		return nil, &defect{"/hash/algorithm", fmt.Sprintf("the algorithm is \"%s\" instead of \"%s\"", printable.Line(f.Hash.Algorithm, 40), algorithm), adviseUpgrade}
	}
	l := &Lock{Hashing: Hashing{Exclude: f.Hash.Exclude}, Servers: map[string]*Server{}}
	if err := l.Hashing.check(); err != nil {
		return nil, &defect{"/hash/exclude", err.Error(), adviseEdited}
	}
	if f.Servers == nil {
		return nil, &defect{"", "servers is missing", adviseRestore}
	}
	for _, id := range slices.Sorted(maps.Keys(f.Servers)) {
		pointer := jsontext.Pointer("/servers").AppendToken(id)
		if f.Servers[id] == nil {
			return nil, &defect{pointer, "the server is null", adviseEdited}
		}
		s, d := f.Servers[id].server(l.Hashing)
		if d != nil {
			d.pointer = pointer + d.pointer
			return nil, d
		}
		l.Servers[id] = s
	}
	return l, nil
}

// server checks a server and returns it. Defects are relative to the server.
func (f *fileServer) server(h Hashing) (*Server, *defect) {
	s := &Server{Policy: f.Policy, Items: map[Section][]Item{}}
	hashes := 0
	for _, section := range sections() {
		all := f.definitions(section)
		if all == nil {
			continue
		}
		hashes++
		items := make([]Item, len(all))
		for i, d := range all {
			it, problem := d.item(h, section)
			if problem != "" {
				return nil, &defect{d.pointer, problem, adviseEdited}
			}
			items[i] = it
		}
		if string(f.Hashes[string(section)]) != SetHash(items) {
			return nil, &defect{"/hashes", "the hash of " + string(section) + " does not match the hashes of its items", adviseEdited}
		}
		s.Items[section] = unique(items)
	}
	if hashes != len(f.Hashes) {
		return nil, &defect{"/hashes", "there is a hash of a section that is missing", adviseEdited}
	}
	for i, r := range f.Rejected {
		if r.Section != SectionPolicy && !slices.Contains(sections(), r.Section) {
			return nil, &defect{jsontext.Pointer("/rejected/" + strconv.Itoa(i)), "the section is invalid", adviseEdited}
		}
		s.Rejected = append(s.Rejected, Rejection{r.Section, r.Key, string(r.Hash)})
	}
	s.Rejected = sortedRejections(s.Rejected)
	return s, nil
}

// item checks a definition and returns it as an item.
func (d placed) item(h Hashing, section Section) (it Item, problem string) {
	value, other := d.Definition, d.Text
	if section == SectionInstructions {
		value, other = other, value
	}
	if value == nil || other != nil {
		return it, "the definition is missing"
	}
	it = h.Item(section, []byte(value))
	switch {
	case it.Problem != "":
		return it, "the definition is invalid: " + it.Problem
	case it.Hash != string(d.Hash):
		return it, "the hash does not match the definition"
	case it.Key != d.key:
		return it, "the name is not the name in the definition"
	}
	return it, ""
}

// syntaxError returns the error of the JSON library for a file.
func syntaxError(data []byte, err error) *FileError {
	e, offset := reason(err)
	e.Line, e.Column = place(data, offset)
	if _, ok := errors.AsType[*jsontext.SyntacticError](err); !ok {
		e.Line, e.Column = place(data, start(data, offset))
		return e
	}
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		e.Problem, e.Advice = "the file is empty", adviseRestore
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Problem, e.Advice = "the file ends before its JSON does, so it was not written completely", adviseRestore
	case bytes.HasPrefix(data, []byte("<<<<<<< ")), bytes.Contains(data, []byte("\n<<<<<<< ")):
		e.Problem, e.Advice = "the file has the conflict markers of a merge", "take one side, and then run: mcptrack lock --update"
	}
	return e
}

// reason returns an error of the JSON library in words of users, without a position, and its offset.
func reason(err error) (*FileError, int64) {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return &FileError{Problem: printable.Line(plain(err).Error(), 300), Advice: adviseEdited}, syntax.ByteOffset
	}
	semantic, ok := errors.AsType[*jsonv2.SemanticError](err)
	if !ok {
		return &FileError{Problem: printable.Line(err.Error(), 300), Advice: adviseEdited}, 0
	}
	e := &FileError{Problem: "the value has the wrong type", Advice: adviseEdited}
	switch {
	case errors.Is(err, jsonv2.ErrUnknownName):
		e.Problem, e.Advice = "there is an unknown member "+printable.Line(semantic.JSONPointer.LastToken(), 60), adviseUpgrade
	case semantic.Err != nil:
		e.Problem = printable.Line(semantic.Err.Error(), 300)
	}
	if semantic.JSONPointer != "" {
		e.Problem += " at " + printable.Line(string(semantic.JSONPointer), 200)
	}
	return e, semantic.ByteOffset
}

// start returns the offset of the first value at or after an offset.
func start(data []byte, offset int64) int64 {
	rest := data[min(offset, int64(len(data))):]
	return int64(len(data) - len(bytes.TrimLeft(rest, " \t\r\n,:")))
}

// place returns the line and the column of an offset.
func place(data []byte, offset int64) (line, column int) {
	before := data[:min(max(offset, 0), int64(len(data)))]
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
}

// Marshal returns the content of a file for a lock: indented and sorted. Hidden characters are \u
// escapes and visible ones are not, however the server spelled them, so that a review shows what a
// model reads. Parse accepts the result. The error is of type [*FileError].
func Marshal(l *Lock) ([]byte, error) {
	f := file{Version: Version, Hash: fileHash{algorithm, slices.Sorted(slices.Values(l.Hashing.Exclude))}, Servers: object[*fileServer]{}}
	if f.Hash.Exclude == nil {
		f.Hash.Exclude = list[string]{}
	}
	for id, s := range l.Servers {
		fs := &fileServer{Policy: s.Policy, Hashes: object[fileSum]{}}
		for _, r := range sortedRejections(s.Rejected) {
			fs.Rejected = append(fs.Rejected, fileRejection{r.Section, r.Key, fileSum(r.Hash)})
		}
		for section, items := range s.Items {
			if items == nil || !slices.Contains(sections(), section) {
				continue
			}
			if only := fs.only(section); only != nil {
				*only = &fileItem{}
			} else {
				*fs.named(section) = object[fileItem]{}
			}
			for _, it := range sortedItems(items) {
				fs.add(section, it)
			}
			fs.Hashes[string(section)] = fileSum(SetHash(items))
		}
		f.Servers[id] = fs
	}
	data, err := jsonv2.Marshal(f, jsonv2.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		e, _ := reason(err)
		e.Advice = "the lock cannot be written"
		return nil, e
	}
	data = append(printable.JSON(data), '\n')
	if _, err := Parse(data); err != nil {
		return nil, err
	}
	return data, nil
}
