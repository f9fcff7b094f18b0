package vault

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/skill"
)

const (
	skillScheme = "skill://"
	// maxSkills is the maximum number of skills of a vault. All their lists of files together have at
	// most Options.MaxEntries files, because the files of a nested skill are listed several times.
	maxSkills = 10_000
	// maxSkillLogs is the maximum number of messages about skills that one scan logs.
	maxSkillLogs = 20
	// saving is how long a skill is still served after its SKILL.md became invalid: some programs empty a
	// file before they write it.
	saving = time.Second
	// maxDescription is the limit of Agent Skills for the description of a skill, in characters.
	maxDescription = 1024
)

// skillSet contains the skills of a snapshot. It is immutable.
type skillSet struct {
	// prefix precedes the paths of all files in URIs: the name of the vault's folder and a slash if
	// the folder itself has a SKILL.md, because the URI of a skill ends with its name. It is empty
	// otherwise.
	prefix string
	list   []*vaultSkill          // sorted by URI
	byDir  map[string]*vaultSkill // keyed by folder; "" is the vault itself
}

// vaultSkill is a folder with a SKILL.md that is served as a skill.
type vaultSkill struct {
	skill.Entry
	item json.RawMessage // the entry as JSON
	main json.RawMessage // SKILL.md as an item of resources/list
}

// skillURI returns the URI of a path in URIs, which includes the prefix. The first segment is the authority
// of the URI, in which ":" and "@" have a meaning.
func skillURI(p string) string {
	first, rest, more := strings.Cut(encodePath(p), "/")
	first = strings.NewReplacer(":", "%3A", "@", "%40").Replace(first)
	if more {
		first += "/" + rest
	}
	return skillScheme + first
}

// dirs calls visit for the folder of a path in URIs and for each folder above it, until it returns true.
func (k *skillSet) dirs(p string, visit func(dir string) bool) {
	rest, ok := strings.CutPrefix(p, k.prefix)
	for dir := parentOf(rest); ok; dir = parentOf(dir) {
		if visit(dir) || dir == "" {
			return
		}
	}
}

// file returns a file of a skill and its path in the vault, given its path in URIs.
func (k *skillSet) file(p string) (f skill.File, at string, ok bool) {
	uri := skillURI(p)
	k.dirs(p, func(dir string) bool {
		if s := k.byDir[dir]; s != nil {
			f, ok = s.File(uri)
		}
		return ok
	})
	return f, strings.TrimPrefix(p, k.prefix), ok
}

// errNotServed is the reason why a folder with a SKILL.md is not served as a skill.
type errNotServed string

func (e errNotServed) Error() string { return string(e) }

// fileError is the reason why a file of a skill cannot be listed, for which the skill is not served.
type fileError struct {
	path string
	err  error
}

func (e *fileError) Error() string { return fmt.Sprintf("%s: %v", e.path, reason(e.err)) }

func (e *fileError) Unwrap() error { return e.err }

// findSkills returns the skills of s, and the paths of files that changed while they were read, or may
// change without a trace. It reads the files that are not notes, because the index has no digests of them.
func (u *updater) findSkills(ctx context.Context, s *snapshot, old *skillSet) (found *skillSet, again []string, err error) {
	found = &skillSet{byDir: map[string]*vaultSkill{}}
	if s.note(skill.Main) != nil {
		found.prefix = u.name + "/"
	}
	digests, notes, room, tried := map[string]fileDigest{}, map[string]string{}, u.opts.MaxEntries, 0
	for _, e := range s.entries {
		if e.note == nil || path.Base(e.path) != skill.Main {
			continue
		}
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		dir := parentOf(e.path)
		if tried++; tried > maxSkills || room <= 0 {
			notes[dir] = "is not served as a skill: there are too many skills"
			continue
		}
		was := old.byDir[dir]
		one, lacks, err := u.makeSkill(ctx, s, found.prefix, dir, e.note, digests)
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if bad, ok := errors.AsType[*fileError](err); ok && (transient(err) || errors.Is(err, fs.ErrNotExist)) {
			again = append(again, bad.path) // the index is out of date
			if was == nil || found.prefix != old.prefix {
				continue
			}
			one, err = was, nil
		}
		if age := time.Since(e.note.modified); err != nil && was != nil && found.prefix == old.prefix && age >= 0 && age < saving {
			again = append(again, e.path)
			one, err = was, nil
		}
		if err != nil {
			notes[dir] = "is not served as a skill: " + printable.Line(err.Error(), 300)
			continue
		}
		if lacks != "" {
			notes[dir] = "is served as a skill without " + lacks
		}
		room -= len(one.Files)
		if was != nil && bytes.Equal(was.item, one.item) {
			one = was
		}
		found.byDir[dir] = one
		found.list = append(found.list, one)
	}
	slices.SortFunc(found.list, func(a, b *vaultSkill) int { return strings.Compare(a.URI, b.URI) })
	for p, d := range digests {
		if !d.settled {
			again = append(again, p)
		}
	}
	slices.Sort(again)
	u.digests = digests
	u.logSkills(notes)
	if found.prefix == old.prefix && slices.Equal(found.list, old.list) {
		found = old
	}
	return found, slices.Compact(again), nil
}

// makeSkill returns the skill of a folder. lacks describes files that are in the folder but cannot be
// part of the vault; it is empty if there are none.
func (u *updater) makeSkill(ctx context.Context, s *snapshot, prefix, dir string, main *note, digests map[string]fileDigest) (one *vaultSkill, lacks string, err error) {
	if main.skillErr != nil {
		return nil, "", main.skillErr
	}
	one = &vaultSkill{Entry: skill.Entry{URI: skillURI(prefix + main.path), Frontmatter: main.frontmatter}}
	var files []*entry
	total, left := int64(0), 0
	for _, e := range s.below(dir) {
		switch {
		case e.left == errTooLarge, e.left == errUnreadable, e.left == errTooMany:
			return nil, "", &fileError{e.path, e.left} // the list of files must be complete
		case e.left != nil:
			if left++; left == 1 {
				lacks = fmt.Sprintf("%s (%v)", printable.Line(e.path, 200), e.left)
			}
			continue
		case e.dir:
			continue
		}
		files, total = append(files, e), total+e.size
		switch {
		case len(files) > skill.MaxFiles:
			return nil, "", errNotServed(fmt.Sprintf("it has more than %d files", skill.MaxFiles))
		case total > skill.MaxBytes:
			return nil, "", errNotServed(fmt.Sprintf("its files have more than %d MiB", skill.MaxBytes>>20))
		case e.size > u.opts.MaxNoteBytes:
			return nil, "", &fileError{e.path, errTooLarge}
		}
	}
	if left > 1 {
		lacks += fmt.Sprintf(" and %d more", left-1)
	}
	for _, e := range files {
		f := skill.File{URI: skillURI(prefix + e.path)}
		if e.note != nil {
			f.Digest, f.Size = e.note.digest, e.note.size
		} else {
			d, err := u.digestOf(ctx, e, digests)
			if err != nil {
				return nil, "", &fileError{e.path, err}
			}
			f.Digest, f.Size = d.sum, d.size
		}
		one.Files = append(one.Files, f)
	}
	// Parse applies the rules for everything that hosts receive, also to names and to the limits.
	if one.item, err = json.Marshal(one.Entry); err != nil {
		return nil, "", err
	}
	if one.Entry, err = skill.Parse(one.item); err != nil {
		return nil, "", err
	}
	if err := conforms(one.Entry); err != nil {
		return nil, "", err
	}
	one.main = encode(map[string]string{"uri": one.URI, "name": one.Name, "description": one.Description, "mimeType": mimeMarkdown})
	return one, lacks, nil
}

// conforms returns which rule of Agent Skills (https://agentskills.io/specification) a skill breaks,
// apart from those that skill.Parse checks.
func conforms(e skill.Entry) error {
	for part := range strings.SplitSeq(e.Name, "-") {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			return errNotServed("its name must consist of lowercase letters and digits, with single hyphens between them")
		}
	}
	if n := utf8.RuneCountInString(e.Description); n == 0 || n > maxDescription {
		return errNotServed(fmt.Sprintf("its description must have 1 to %d characters", maxDescription))
	}
	return nil
}

// fileDigest is the digest of a file that is not a note.
type fileDigest struct {
	entry *entry // the entry for which it was made
	sum   catalog.Digest
	size  int64
	// settled means that the file was not modified while it was read, nor so shortly before that
	// its modification time might not tell a later change.
	settled bool
}

// digestOf returns the digest of a file, from digests, from the last scan, or from the disk.
func (u *updater) digestOf(ctx context.Context, e *entry, digests map[string]fileDigest) (fileDigest, error) {
	if d, ok := digests[e.path]; ok {
		return d, nil
	}
	d := u.digests[e.path]
	if d.entry != e || !d.settled {
		if ctx.Err() != nil {
			return d, context.Cause(ctx)
		}
		began := time.Now()
		r := u.disk.reader()
		defer r.close()
		f, info, err := r.open(e.path)
		if err != nil {
			return d, err
		}
		defer f.Close()
		sum := sha256.New()
		d.size, err = io.Copy(sum, io.LimitReader(f, u.opts.MaxNoteBytes+1))
		if err == nil && d.size > u.opts.MaxNoteBytes {
			err = errTooLarge
		}
		if err != nil {
			return d, err
		}
		after, err := f.Stat()
		d.settled = err == nil && e.unchanged(info) && e.unchanged(after) && began.Sub(info.ModTime()) >= youth(info.ModTime())
		d.entry, d.sum = e, catalog.Digest(sum.Sum(nil))
	}
	digests[e.path] = d
	return d, nil
}

// logSkills logs what is wrong with folders that have a SKILL.md, if it was not logged for the last scan.
func (u *updater) logSkills(notes map[string]string) {
	logged := 0
	for _, dir := range slices.Sorted(maps.Keys(notes)) {
		if u.skillNotes[dir] == notes[dir] {
			continue
		}
		if logged++; logged <= maxSkillLogs {
			u.opts.Logger.Warn("a folder "+notes[dir], slog.String("path", printable.Line(cmp.Or(dir, u.opts.Dir), 300)))
		}
	}
	if logged > maxSkillLogs {
		u.opts.Logger.Warn("more folders are not served as skills, or not completely", slog.Int("number", logged-maxSkillLogs))
	}
	u.skillNotes = notes
}

// Skills returns the number of skills.
func (v *Vault) Skills() int { return len(v.now.Load().skills.list) }

// skillItems returns the skills as items of skills/list, sorted by URI.
func (v *Vault) skillItems() []json.RawMessage {
	items := []json.RawMessage{}
	for _, s := range v.now.Load().skills.list {
		items = append(items, s.item)
	}
	return items
}

// Skill returns the entry, as JSON, of the skill whose SKILL.md has this URI, in exactly this spelling.
// The error is ErrNotFound.
func (v *Vault) Skill(uri string) (json.RawMessage, error) {
	if t, err := parseURI(uri); err == nil && t.kind == kindSkill {
		k := v.now.Load().skills
		if s := k.byDir[parentOf(strings.TrimPrefix(t.path, k.prefix))]; s != nil && s.URI == uri {
			return s.item, nil
		}
	}
	return nil, fmt.Errorf("%w: no skill is served at %s", ErrNotFound, printable.Line(uri, 300))
}

// Child is a direct child of a folder of a skill, as an item of resources/list.
type Child struct {
	URI  string `json:"uri"`
	Name string `json:"name"`
	MIME string `json:"mimeType,omitempty"`
	Size *int64 `json:"size,omitempty"` // of a file
}

// ReadFolder returns the direct children of a folder of a skill, sorted by name. The files are the ones
// that the skill's list contains. The error is ErrNotFound.
func (v *Vault) ReadFolder(uri string) ([]Child, error) {
	s := v.now.Load()
	missing := fmt.Errorf("%w: %s is not a folder of a skill", ErrNotFound, printable.Line(uri, 300))
	t, err := parseURI(uri)
	if err != nil || t.kind != kindSkill {
		return nil, missing
	}
	var within *vaultSkill
	s.skills.dirs(t.path+"/", func(dir string) bool { // t.path is a folder itself
		within = s.skills.byDir[dir]
		return within != nil
	})
	dir := strings.TrimPrefix(t.path+"/", s.skills.prefix)
	dir = strings.TrimSuffix(dir, "/")
	if within == nil || !s.isFolder(dir) {
		return nil, missing
	}
	children := []Child{}
	for _, e := range s.below(dir) {
		if e.left != nil || parentOf(e.path) != dir {
			continue
		}
		c := Child{URI: skillURI(s.skills.prefix + e.path), Name: path.Base(e.path), MIME: mimeDirectory}
		if !e.dir {
			f, listed := within.File(c.URI)
			if !listed {
				continue
			}
			c.MIME, c.Size = typeOf(e.path), &f.Size
		}
		children = append(children, c)
	}
	return children, nil
}

// maxRescans is how often a file of a skill is scanned again if it differs from the index, before a read
// of it fails.
const maxRescans = 5

// errChanging reports that a file of a skill differs from the index whenever it is read.
var errChanging = errors.New("the file is being changed; read it again")

// readSkill returns the content of a file of a skill. It is the content whose digest the skill's list of
// files has: if the file on disk differs, the index is updated first. A list that a client requests
// afterwards is therefore never older than the content.
func (v *Vault) readSkill(ctx context.Context, t target) (Content, error) {
	for range maxRescans {
		f, at, ok := v.now.Load().skills.file(t.path)
		if !ok {
			return Content{}, fmt.Errorf("%w: %s", ErrNotFound, t.uri())
		}
		src, _, err := v.disk.read(at)
		if err == nil && int64(len(src)) == f.Size && sha256.Sum256(src) == f.Digest {
			return contentOf(at, src), nil
		}
		if err := v.rescan(ctx, at); err != nil {
			return Content{}, err
		}
	}
	return Content{}, errChanging
}

// contentOf returns the content of a file of a skill: as text if that preserves every byte.
func contentOf(p string, src []byte) Content {
	c := Content{MIMEType: typeOf(p)}
	if utf8.Valid(src) {
		c.Text = string(src)
	} else {
		c.Blob = base64.StdEncoding.EncodeToString(src)
	}
	if c.MIMEType == "" {
		c.MIMEType, _, _ = strings.Cut(http.DetectContentType(src), ";")
	}
	return c
}

// typeOf returns the media type of a file according to its extension. It does not depend on the machine, because
// a lock has it. It is empty for other extensions.
func typeOf(p string) string {
	return map[string]string{
		".md": mimeMarkdown, ".json": mimeJSON, ".txt": "text/plain", ".csv": "text/csv", ".html": "text/html", ".css": "text/css",
		".js": "text/javascript", ".mjs": "text/javascript", ".py": "text/x-python", ".sh": "application/x-sh",
		".xml": "application/xml", ".yaml": "application/yaml", ".yml": "application/yaml", ".pdf": "application/pdf",
		".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg",
	}[strings.ToLower(path.Ext(p))]
}

const mimeDirectory = "inode/directory"

// rescanned is a request to Run to scan a path.
type rescanned struct {
	path string
	done chan struct{} // closed by Run
}

// rescan makes Run scan a path, and returns once the index is updated. The error is the cause of ctx, or
// errChanging if Run has returned.
func (v *Vault) rescan(ctx context.Context, p string) error {
	r := rescanned{p, make(chan struct{})}
	select {
	case v.rescans <- r:
	case <-v.ended:
		return errChanging
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-r.done: // Run always closes it
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// folderName returns the name of a folder, also of one that is given as ".".
func folderName(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Base(dir)
}
