package vault

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
)

// Why an entry of the folder is no part of the vault. The texts are keys of the
// counts in vault://structure.
var (
	errSymlink    = errors.New("symbolic link")
	errHardLink   = errors.New("hard link")
	errSpecial    = errors.New("not a regular file")
	errTooLarge   = errors.New("too large")
	errName       = errors.New("unprintable name")
	errUnreadable = errors.New("unreadable")
	errTooMany    = errors.New("too many")
	// errMoved: another file has the name since.
	errMoved = errors.New("changed while it was read")
)

// disk is the folder on disk, and the only way to it. Every access goes through an
// os.Root, so that no path leads out of it, whatever is renamed or linked meanwhile.
// Its methods may be called from any goroutine.
type disk struct {
	dir     string
	maxNote int64

	mu   sync.RWMutex
	root *os.Root
}

func openDisk(dir string, maxNote int64) (*disk, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the vault: %w", err)
	}
	return &disk{dir: dir, maxNote: maxNote, root: root}, nil
}

func (d *disk) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.root.Close()
}

// reopen goes to the folder that has the name now, if it is another one. An error
// means that there is none; the old one stays open then.
func (d *disk) reopen() error {
	now, err := os.Stat(d.dir)
	if err != nil {
		return err
	}
	have, err := d.at().Stat(".")
	if err == nil && os.SameFile(now, have) {
		return nil
	}
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	// Whoever still holds the old one fails to read, which is the truth.
	_ = d.root.Close()
	d.root = root
	return nil
}

func (d *disk) at() *os.Root {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.root
}

// lstat looks at an entry without following it, and fails if a folder on the way
// to it is a symbolic link.
func (d *disk) lstat(p string) (fs.FileInfo, error) {
	root := d.at()
	for i := range len(p) {
		if p[i] != '/' {
			continue
		}
		info, err := root.Lstat(p[:i])
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			return nil, errSymlink
		}
	}
	return root.Lstat(p)
}

// list returns the entries of a folder in the order of their names.
func (d *disk) list(p string) ([]fs.FileInfo, error) {
	f, err := d.at().Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.Readdir(-1)
	return entries, err
}

// check says why an entry cannot be a file of the vault, nil if it can.
func (d *disk) check(p string, info fs.FileInfo) error {
	_, names := identity(info)
	switch {
	case !printableName(path.Base(p)):
		return errName
	case info.Mode()&fs.ModeSymlink != 0:
		return errSymlink
	case !info.Mode().IsRegular():
		return errSpecial
	case names > 1:
		return errHardLink
	case isNote(p) && info.Size() > d.maxNote:
		return errTooLarge
	}
	return nil
}

// read returns the content of a note and what the file was when it was opened.
// The file must be what check wants, by the descriptor that is read and by its
// name after that.
func (d *disk) read(p string) ([]byte, fs.FileInfo, error) {
	// Before opening: opening alone has effects on some devices.
	named, err := d.lstat(p)
	if err != nil {
		return nil, nil, err
	}
	return d.readNamed(p, named)
}

// readNamed is read of a file that was just looked at by its name.
func (d *disk) readNamed(p string, named fs.FileInfo) ([]byte, fs.FileInfo, error) {
	if err := d.check(p, named); err != nil {
		return nil, nil, err
	}
	f, err := d.at().OpenFile(p, openFlags, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if err := d.check(p, info); err != nil {
		return nil, nil, err
	}
	if !os.SameFile(named, info) {
		return nil, nil, errMoved // by name it was no link; what was opened may be behind one
	}
	var b bytes.Buffer
	b.Grow(int(min(info.Size(), d.maxNote)) + bytes.MinRead)
	if _, err := b.ReadFrom(io.LimitReader(f, d.maxNote+1)); err != nil {
		return nil, nil, err
	}
	if int64(b.Len()) > d.maxNote {
		return nil, nil, errTooLarge
	}
	return b.Bytes(), info, nil
}

// reason is the key under which an error is counted.
func reason(err error) error {
	for _, known := range []error{errSymlink, errHardLink, errSpecial, errTooLarge, errName, errTooMany} {
		if errors.Is(err, known) {
			return known
		}
	}
	return errUnreadable
}

// within reports whether p is dir or below it; "" is the whole vault.
func within(p, dir string) bool {
	return dir == "" || p == dir || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}
