package vault

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
)

const (
	// contentBudget bounds the text of all notes in one vault://recent?mode=full.
	contentBudget = 2 << 20
	// maxTree is how many files vault://structure names; of more only the folders.
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

// recentItem is a note as recent shows it.
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

// renderRecent is vault://recent. What a page shows besides its notes must be known
// to pageChanges. content gives the text of a note, false to have
// its preview instead.
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

// renderStats is vault://stats.
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

// renderTags is vault://tags.
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

// treeNode is a folder in vault://structure.
type treeNode struct {
	Name    string      `json:"name"`
	Path    string      `json:"path"`
	Notes   []string    `json:"notes,omitempty"`
	Files   []string    `json:"files,omitempty"`
	Folders []*treeNode `json:"folders,omitempty"`
	Count   int         `json:"noteCount"` // in it and below
}

// renderStructure is vault://structure. Sizes and times are not in it, so that it
// changes only when something comes, goes or moves.
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
		case parent == nil: // of a folder that was left out meanwhile
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

// parentOf is the folder that a path is in; "" is the root.
func parentOf(p string) string { return p[:max(0, strings.LastIndexByte(p, '/'))] }

type folderFile struct {
	Name     string `json:"name"`
	Path     string `json:"path"`
	Title    string `json:"title,omitempty"`
	Size     int64  `json:"size"`
	Modified string `json:"modified"`
}

// renderFolder is vault://folder/…: what is in the folder, and a digest of all that
// is below it, so that the document differs whenever anything below does.
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

// render is what any target but a note shows. text gives the text of a note for
// vault://recent, if there is one to show.
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

// fingerprint tells apart two states of what a target shows; "" is that there is
// nothing. It costs no look at the disk.
func (s *snapshot) fingerprint(t target) string {
	if !s.exists(t) {
		return ""
	}
	if t.kind == kindNote {
		digest := s.note(t.path).digest
		return string(digest[:])
	}
	sum := sha256.Sum256(s.render(t, digestOf))
	return string(sum[:])
}

// exists reports whether a target can be read, and so be subscribed to.
func (s *snapshot) exists(t target) bool {
	switch t.kind {
	case kindNote:
		return s.note(t.path) != nil
	case kindFolder:
		return s.isFolder(t.path)
	}
	return true
}

// commonPaths completes the beginning of a path: those of folders or notes that
// begin with it or have a part that does, the shorter first.
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
