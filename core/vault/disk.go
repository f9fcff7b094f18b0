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
	"syscall"
)

// Reasons why an entry in the folder is not part of the vault. Their texts are the keys of the
// skipped-entry counts in vault://structure.
var (
	errSymlink    = errors.New("symbolic link")
	errHardLink   = errors.New("hard link")
	errSpecial    = errors.New("not a regular file")
	errTooLarge   = errors.New("too large")
	errName       = errors.New("unprintable name") // or a name with a backslash, see goodName
	errUnreadable = errors.New("unreadable")
	errTooMany    = errors.New("too many")
	// errMoved means that the name was assigned to another file or folder before the access
	// completed.
	errMoved = errors.New("changed while it was read")
)

// disk provides all access to the folder. Every access goes through an os.Root, so that no path can
// escape from it, even if entries are renamed or linked in the meantime. It is safe for concurrent
// use.
type disk struct {
	dir     string
	maxNote int64

	mu   sync.RWMutex
	root *os.Root
}

func openDisk(dir string, maxNote int64) (*disk, error) {
	root, err := openFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the folder of the vault: %w", err)
	}
	return &disk{dir: dir, maxNote: maxNote, root: root}, nil
}

// openFolder opens a folder and fails for anything else, because opening a FIFO would block.
func openFolder(dir string) (*os.Root, error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

func (d *disk) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.root.Close()
}

// reopen opens the folder that is now at the configured path. On an error, the old folder stays
// open.
func (d *disk) reopen() error {
	now, err := os.Stat(d.dir)
	if err != nil {
		return err
	}
	have, err := d.at().Stat(".")
	if err == nil && os.SameFile(now, have) {
		return nil
	}
	root, err := openFolder(d.dir)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	// Concurrent reads from the old folder fail, as intended.
	_ = d.root.Close()
	d.root = root
	return nil
}

func (d *disk) at() *os.Root {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.root
}

// enter opens a folder of the vault; the caller closes it. An os.Root prevents escapes but follows
// symbolic links within the root, including links to hidden folders. enter therefore compares each
// opened folder on the path with the directory entry of that name: if they are the same directory,
// no link was followed, even if entries are swapped concurrently.
func (d *disk) enter(dir string) (*os.Root, error) {
	at, err := d.at().OpenRoot(".")
	if err != nil || dir == "" {
		return at, err
	}
	for name := range strings.SplitSeq(dir, "/") {
		next, err := at.OpenRoot(name)
		if err == nil {
			if err = same(at, name, next); err != nil {
				_ = next.Close()
			}
		}
		_ = at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// same returns an error unless the opened folder is the entry called name in the folder in.
func same(in *os.Root, name string, opened *os.Root) error {
	named, err := in.Lstat(name)
	if err != nil {
		return err
	}
	if !named.IsDir() {
		return errSymlink
	}
	info, err := opened.Stat(".")
	if err != nil {
		return err
	}
	if !os.SameFile(named, info) {
		return errMoved
	}
	return nil
}

// lstat returns the file info of an entry. It does not follow symbolic links, whether the link is
// the entry itself or a folder on the path to it.
func (d *disk) lstat(p string) (fs.FileInfo, error) {
	in, err := d.enter(parentOf(p))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return in.Lstat(path.Base(p))
}

// list returns the entries of a folder.
func (d *disk) list(p string) ([]fs.FileInfo, error) {
	in, err := d.enter(p)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	f, err := in.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdir(-1)
}

// check returns the reason why an entry cannot be a file of the vault, or nil if it can.
func (d *disk) check(p string, info fs.FileInfo) error {
	_, names := identity(info) // names is the number of hard links to the file
	switch {
	case !goodName(path.Base(p)):
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

// A fileReader opens files one after another. It keeps the folder of the last one open, so it is for files that
// are opened in the same moment. Only one goroutine may use it; it must call close.
type fileReader struct {
	*disk
	dir string
	in  *os.Root // dir; nil if no folder is open
	buf bytes.Buffer
}

func (d *disk) reader() *fileReader { return &fileReader{disk: d} }

func (r *fileReader) close() {
	if r.in != nil {
		_ = r.in.Close()
		r.in = nil
	}
}

// open opens a file and returns its file info. It fails if the opened file is not the one that the path
// refers to (compare enter), or does not pass check. The caller closes it.
func (r *fileReader) open(p string) (*os.File, fs.FileInfo, error) {
	if dir := parentOf(p); r.in == nil || r.dir != dir {
		r.close()
		in, err := r.enter(dir)
		if err != nil {
			return nil, nil, err
		}
		r.in, r.dir = in, dir
	}
	// Check before opening, because merely opening some devices has side effects.
	named, err := r.in.Lstat(path.Base(p))
	if err != nil {
		return nil, nil, err
	}
	if err := r.check(p, named); err != nil {
		return nil, nil, err
	}
	f, err := r.in.OpenFile(path.Base(p), openFlags, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = r.check(p, info)
	}
	if err == nil && !os.SameFile(named, info) {
		err = errMoved
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// read returns the content of a file of at most maxNote bytes, and its file info.
func (d *disk) read(p string) ([]byte, fs.FileInfo, error) {
	r := d.reader()
	defer r.close()
	return r.read(p)
}

// read is like disk.read, but the content is valid only until the next call.
func (r *fileReader) read(p string) ([]byte, fs.FileInfo, error) {
	f, info, err := r.open(p)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	r.buf.Reset()
	r.buf.Grow(int(min(info.Size(), r.maxNote)) + bytes.MinRead)
	if _, err := r.buf.ReadFrom(io.LimitReader(f, r.maxNote+1)); err != nil {
		return nil, nil, err
	}
	if int64(r.buf.Len()) > r.maxNote {
		return nil, nil, errTooLarge
	}
	return r.buf.Bytes(), info, nil
}

// reason returns the sentinel error under which an entry skipped because of err is counted.
func reason(err error) error {
	for _, known := range []error{errSymlink, errHardLink, errSpecial, errTooLarge, errName, errTooMany} {
		if errors.Is(err, known) {
			return known
		}
	}
	return errUnreadable
}

// within reports whether p equals dir or is under it; an empty dir means the whole vault.
func within(p, dir string) bool {
	return dir == "" || p == dir || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}
