package vault

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
)

const (
	// contentBudget limits the bytes of all notes in one vault://recent?mode=full.
	contentBudget = 2 << 20
	// maxTree is how many entries vault://structure lists; of a larger vault it lists only
	// the folders.
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

// renderRecent renders vault://recent. pageChanges must take account of everything a
// page contains besides its notes. content returns the text of a note, or false to
// show its preview instead.
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

// render renders any target but a note. text returns the text of a note for
// vault://recent, or false to show its preview instead.
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

// fingerprint identifies the content of a target; "" means that it does not exist.
// It does not access the disk.
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

// commonPaths completes the beginning of a path: it returns the paths of folders or notes
// that begin with prefix, or have a segment that does, ignoring case. Those that begin with
// it come first, then less nested ones. paths has at most most of them; total counts all.
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
