package vault

import (
	"crypto/sha256"
	"encoding/json"
	"io/fs"
	"path"
	"time"
)

// entry is one file or folder of the vault, or one that was skipped. It is
// immutable: every change makes a new entry.
type entry struct {
	path     string
	dir      bool
	size     int64
	modified time.Time
	inode    uint64
	left     error // why the entry was skipped; nil if it was not
	note     *note // nil if it is not a note

	// young says that the file was written so shortly before it was read that a
	// later change may leave its modification time and size unchanged.
	young bool
}

// note is the index entry of a note. The text stays on disk.
type note struct {
	path           string
	title, preview string
	tags, links    []string
	size           int64
	modified       time.Time
	digest         [sha256.Size]byte
	item           json.RawMessage // its item in resources/list
}

// youth is the possible granularity of a modification time. Some file systems store
// whole seconds or milliseconds, in steps of up to two seconds.
func youth(modified time.Time) time.Duration {
	if modified.Nanosecond()%int(time.Millisecond) == 0 {
		return 2 * time.Second
	}
	return 50 * time.Millisecond // more than one tick of a kernel clock at 100 Hz
}

// file makes the entry of a file other than a note.
func file(p string, info fs.FileInfo) *entry {
	inode, _ := identity(info)
	return &entry{path: p, size: info.Size(), modified: info.ModTime(), inode: inode}
}

func folder(p string) *entry { return &entry{path: p, dir: true} }

func skipped(p string, why error) *entry { return &entry{path: p, left: reason(why)} }

// unchanged reports whether a file certainly has the content that it had when e was
// made.
func (e *entry) unchanged(info fs.FileInfo) bool {
	inode, _ := identity(info)
	return e != nil && e.left == nil && !e.dir && !e.young &&
		e.size == info.Size() && e.inode == inode && e.modified.Equal(info.ModTime())
}

// equal reports whether two entries of one path are indistinguishable to clients.
func (e *entry) equal(o *entry) bool {
	if e == nil || o == nil {
		return e == o
	}
	if e.dir != o.dir || e.left != o.left || e.size != o.size || !e.modified.Equal(o.modified) {
		return false
	}
	if e.note == nil || o.note == nil {
		return e.note == o.note
	}
	return e.note.digest == o.note.digest
}

// makeNote makes the entry of a note from its content.
func makeNote(p string, info fs.FileInfo, src []byte, f facts, now time.Time) *entry {
	e := file(p, info)
	e.young = now.Sub(info.ModTime()) < youth(info.ModTime())
	e.note = &note{
		path: p, title: f.title, preview: f.preview, tags: f.tags, links: f.links,
		size: int64(len(src)), modified: info.ModTime(), digest: sha256.Sum256(src),
	}
	e.note.item = encode(struct {
		URI   string `json:"uri"`
		Name  string `json:"name"`
		Title string `json:"title,omitempty"`
		MIME  string `json:"mimeType"`
	}{noteURI(p), path.Base(p), f.title, mimeMarkdown})
	return e
}
