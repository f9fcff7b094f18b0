package vault

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
)

// treeNode is a folder in vault://structure.
type treeNode struct {
	Name    string      `json:"name"`
	Path    string      `json:"path"`
	Notes   []string    `json:"notes,omitempty"`
	Files   []string    `json:"files,omitempty"`
	Folders []*treeNode `json:"folders,omitempty"`
	Count   int         `json:"noteCount"` // notes in the folder and below it
}

// renderStructure renders vault://structure. It has no sizes or times, so that it
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
		case parent == nil: // in a folder that was skipped
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

// renderFolder renders vault://folder/…: the entries of the folder, and a digest of
// everything below it, so that the document changes whenever anything below does.
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
