package vault

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	// contentBudget is the maximum total size, in bytes, of all notes in a vault://recent?mode=full
	// response.
	contentBudget = 2 << 20
	// maxTree is the maximum number of entries in vault://structure; for a larger vault, it
	// contains only the folders.
	maxTree = 50_000
)

type recentNote struct {
	Path       string     `json:"path"`
	Title      string     `json:"title"`
	ModifiedAt string     `json:"modifiedAt"`
	Preview    *string    `json:"preview,omitempty"`
	Content    *string    `json:"content,omitempty"`
	Meta       recentMeta `json:"_meta"`
}

type recentMeta struct {
	Size          int64  `json:"size"`
	SizeFormatted string `json:"sizeFormatted"`
	LastModified  string `json:"lastModified"`
}

type pagination struct {
	Limit   int  `json:"limit"`
	Offset  int  `json:"offset"`
	Total   int  `json:"total"`
	HasMore bool `json:"hasMore"`
}

// recentItem returns the element of vault://recent for a note.
func recentItem(n *note, full bool, content func(*note) (string, bool)) recentNote {
	at := timestamp(n.modified)
	r := recentNote{Path: n.path, Title: n.title, ModifiedAt: at, Meta: recentMeta{n.size, sizeText(n.size), at}}
	if full {
		if text, ok := content(n); ok {
			r.Content = &text
		}
	}
	if r.Content == nil {
		r.Preview = &n.preview
	}
	return r
}

// renderRecent renders vault://recent. content returns the text of a note, or false to include its
// preview instead. Everything that a page contains besides its notes must be considered in
// pageChanges.
func (s *snapshot) renderRecent(t target, content func(*note) (string, bool)) []byte {
	doc := struct {
		Notes      []recentNote `json:"notes"`
		Mode       string       `json:"mode"`
		Pagination pagination   `json:"pagination"`
	}{Notes: []recentNote{}, Mode: "preview"}
	if t.full {
		doc.Mode = "full"
	}
	from := min(t.offset, len(s.recent))
	page := s.recent[from:min(from+t.limit, len(s.recent))]
	for _, n := range page {
		doc.Notes = append(doc.Notes, recentItem(n, t.full, content))
	}
	doc.Pagination = pagination{t.limit, t.offset, len(s.recent), from+len(page) < len(s.recent)}
	return pretty(doc)
}

// renderStats renders vault://stats.
func (s *snapshot) renderStats() []byte {
	var doc struct {
		Files int `json:"fileCount"`
		Notes int `json:"noteCount"`
	}
	doc.Notes = len(s.recent)
	for _, e := range s.entries {
		if !e.dir && e.left == nil {
			doc.Files++
		}
	}
	return pretty(doc)
}

// renderTags renders vault://tags.
func (s *snapshot) renderTags(full bool) []byte {
	tags := s.tagCounts()
	if full {
		return pretty(struct {
			Mode  string     `json:"mode"`
			Tags  []tagCount `json:"tags"`
			Total int        `json:"totalTags"`
		}{"full", listOf(tags), len(tags)})
	}
	var doc struct {
		Mode  string     `json:"mode"`
		Total int        `json:"totalTags"`
		Top   []tagCount `json:"topTags"`
		Usage struct {
			Total   int     `json:"totalUsages"`
			Average float64 `json:"averageUsage"`
			Median  float64 `json:"medianUsage"`
		} `json:"usageStats"`
		Message string `json:"message"`
	}
	doc.Mode, doc.Total = "summary", len(tags)
	doc.Top = listOf(tags[:min(5, len(tags))])
	for _, t := range tags {
		doc.Usage.Total += t.Count
	}
	if n := len(tags); n > 0 {
		doc.Usage.Average = float64(doc.Usage.Total*100/n) / 100
		doc.Usage.Median = float64(tags[n/2].Count+tags[(n-1)/2].Count) / 2
	}
	doc.Message = fmt.Sprintf("Summary of %d tags. Read %s for all of them.", len(tags), tagsFullURI)
	return pretty(doc)
}

// render renders any target except a note or a file of a skill. text returns the text of a note for vault://recent, or
// false to include its preview instead.
func (s *snapshot) render(t target, text func(*note) (string, bool)) []byte {
	switch t.kind {
	case kindRecent:
		return s.renderRecent(t, text)
	case kindStats:
		return s.renderStats()
	case kindTags:
		return s.renderTags(t.full)
	case kindStructure:
		return s.renderStructure()
	case kindFolder:
		return s.renderFolder(t.path)
	}
	return nil
}

// fingerprint returns a string that identifies the content of a target, or "" if the target does
// not exist. It does not access the disk.
func (s *snapshot) fingerprint(t target) string {
	if !s.exists(t) {
		return ""
	}
	if t.kind == kindNote {
		digest := s.note(t.path).digest
		return string(digest[:])
	}
	if t.kind == kindSkill {
		f, _, _ := s.skills.file(t.path)
		return string(f.Digest[:])
	}
	sum := sha256.Sum256(s.render(t, digestOf))
	return string(sum[:])
}

// exists reports whether a target can be read and subscribed to.
func (s *snapshot) exists(t target) bool {
	switch t.kind {
	case kindNote:
		return s.note(t.path) != nil
	case kindFolder:
		return s.isFolder(t.path)
	case kindSkill:
		_, _, ok := s.skills.file(t.path)
		return ok
	}
	return true
}

// commonPaths completes a partial path: it returns the paths of folders or notes that start with
// prefix, or contain a segment that does, ignoring case. Paths that start with it come first, then
// paths with fewer levels. At most most paths are returned; total is the number of all matches.
func (s *snapshot) commonPaths(prefix string, folders bool, most int) (paths []string, total int) {
	want := strings.ToLower(prefix)
	for _, e := range s.entries {
		if e.dir != folders || !folders && e.note == nil {
			continue
		}
		p := strings.ToLower(e.path)
		if strings.HasPrefix(p, want) || strings.Contains(p, "/"+want) {
			paths = append(paths, e.path)
		}
	}
	rank := func(p string) int {
		if strings.HasPrefix(p, prefix) {
			return 0
		}
		return 1
	}
	slices.SortFunc(paths, func(a, b string) int {
		return cmp.Or(rank(a)-rank(b), strings.Count(a, "/")-strings.Count(b, "/"), strings.Compare(a, b))
	})
	return paths[:min(len(paths), most)], len(paths)
}

// treeNode represents a folder in vault://structure.
type treeNode struct {
	Name    string      `json:"name"`
	Path    string      `json:"path"`
	Notes   []string    `json:"notes,omitempty"`
	Files   []string    `json:"files,omitempty"`
	Folders []*treeNode `json:"folders,omitempty"`
	Count   int         `json:"noteCount"` // number of notes in the folder and its subfolders
}

// renderStructure renders vault://structure. The document contains no sizes or times, so that it
// changes only when an entry is added, removed or moved.
func (s *snapshot) renderStructure() []byte {
	root := &treeNode{Name: "/"}
	doc := struct {
		Mode    string         `json:"mode"`
		Folders int            `json:"totalFolders"`
		Notes   int            `json:"totalNotes"`
		Files   int            `json:"totalFiles"`
		Skipped map[string]int `json:"skipped,omitempty"`
		Root    *treeNode      `json:"root"`
	}{Mode: "full", Notes: len(s.recent), Root: root}
	if len(s.entries) > maxTree {
		doc.Mode = "folders"
	}
	nodes := map[string]*treeNode{"": root}
	for _, e := range s.entries {
		parent := nodes[parentOf(e.path)]
		switch {
		case e.left != nil:
			if doc.Skipped == nil {
				doc.Skipped = make(map[string]int)
			}
			doc.Skipped[e.left.Error()]++
		case parent == nil: // inside a folder that was skipped
		case e.dir:
			n := &treeNode{Name: path.Base(e.path), Path: e.path}
			nodes[e.path] = n
			parent.Folders = append(parent.Folders, n)
			doc.Folders++
		default:
			doc.Files++
			if e.note != nil {
				for p := e.path; p != ""; {
					p = parentOf(p)
					nodes[p].Count++
				}
			}
			switch {
			case doc.Mode == "folders":
			case e.note != nil:
				parent.Notes = append(parent.Notes, path.Base(e.path))
			default:
				parent.Files = append(parent.Files, path.Base(e.path))
			}
		}
	}
	return pretty(doc)
}

// parentOf returns the folder that contains a path; "" is the root.
func parentOf(p string) string { return p[:max(0, strings.LastIndexByte(p, '/'))] }

type folderFile struct {
	Name     string `json:"name"`
	Path     string `json:"path"`
	Title    string `json:"title,omitempty"`
	Size     int64  `json:"size"`
	Modified string `json:"modified"`
}

// renderFolder renders vault://folder/…: the entries of the folder, and a digest of all its
// descendants, so that the document changes whenever any of them changes.
func (s *snapshot) renderFolder(dir string) []byte {
	doc := struct {
		Path    string       `json:"path"`
		Folders []string     `json:"folders"`
		Files   []folderFile `json:"files"`
		Notes   int          `json:"noteCount"`
		Count   int          `json:"fileCount"`
		Digest  string       `json:"digest"`
	}{Path: dir, Folders: []string{}, Files: []folderFile{}}
	sum := sha256.New()
	for _, e := range s.below(dir) {
		if e.left != nil {
			continue
		}
		direct := parentOf(e.path) == dir
		fmt.Fprintf(sum, "%q", e.path)
		switch {
		case e.dir:
			if direct {
				doc.Folders = append(doc.Folders, path.Base(e.path))
			}
			continue
		case e.note != nil:
			doc.Notes++
			sum.Write(e.note.digest[:])
		default:
			fmt.Fprintf(sum, " %d %d", e.size, e.modified.UnixNano())
		}
		doc.Count++
		if direct {
			f := folderFile{Name: path.Base(e.path), Path: e.path, Size: e.size, Modified: timestamp(e.modified)}
			if e.note != nil {
				f.Title = e.note.title
			}
			doc.Files = append(doc.Files, f)
		}
	}
	doc.Digest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	return pretty(doc)
}

const (
	mimeMarkdown = "text/markdown"
	mimeJSON     = "application/json"
)

// encode returns v as JSON. It is used only for structs of strings and numbers from this package,
// so encoding cannot fail.
func encode(v any) []byte {
	b, _ := printable.Marshal(v)
	return b
}

// pretty returns v as JSON with one member per line, which makes diffs readable.
func pretty(v any) []byte {
	var b bytes.Buffer
	_ = json.Indent(&b, encode(v), "", "  ")
	return append(b.Bytes(), '\n')
}

// timestamp formats a time with millisecond precision, like toISOString in JavaScript.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// sizeText returns a human-readable size for a number of bytes.
func sizeText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, "KB"
	if v >= 1024 {
		v, unit = v/1024, "MB"
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}

// listOf replaces nil with an empty list, so that it is encoded as [] instead of null in JSON.
func listOf[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func unique(list []string, most int) []string {
	slices.Sort(list)
	list = slices.Compact(list)
	return slices.Clip(list[:min(len(list), most)])
}

// titleOf returns the first text that contains a printable character, shortened.
func titleOf(texts ...string) string {
	for _, t := range texts {
		if t = shorten(t, maxTitle); t != "" {
			return t
		}
	}
	return "Untitled"
}

// shorten returns the first runes of a text on one line: white space is collapsed and hidden
// characters are removed.
func shorten(s string, runes int) string {
	var line strings.Builder
	line.Grow(min(len(s), runes))
	for word := range strings.FieldsSeq(s) {
		if word = printable.Visible(word); word != "" && line.Len() > 0 {
			word = " " + word
		}
		for _, r := range word {
			if runes--; runes < 0 {
				return strings.TrimRight(line.String(), " ")
			}
			line.WriteRune(r)
		}
	}
	return line.String()
}
