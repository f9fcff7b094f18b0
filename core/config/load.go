package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
)

// Limits of a config file.
const (
	MaxFileSize = 1 << 20 // bytes
	MaxDepth    = 64      // nested objects and arrays
)

// Options say against which surroundings a file is read. The zero value is the
// process's own: its environment, working directory and home.
type Options struct {
	// Getenv looks up a variable; default os.LookupEnv.
	Getenv func(name string) (value string, set bool)
	// Workspace is ${workspaceFolder}, and the folder that relative paths in the
	// file and the names tried by Find are relative to; default the working
	// directory.
	Workspace string
	// UserHome is ${userHome}; default os.UserHomeDir.
	UserHome string
	// LookPath finds a command without a path separator; its error becomes the
	// command_not_found warning. Default: the PATH of the server's own env, else
	// that of Getenv.
	LookPath func(name string) (string, error)
	// Strict turns every warning into an error.
	Strict bool
}

// Load reads and checks one file. It returns all problems of the file at once,
// and a Config if and only if none of them is an error. A file that is not there
// is one problem with code not_found.
//
// Load opens the file once and reads it whole, so a writer that renames a new
// file over the old one is never seen half done.
func Load(path string, opts Options) (*Config, Problems) {
	data, writable, problem := readFile(path)
	if problem != nil {
		problem.Severity, problem.File, problem.Line, problem.Column = SeverityError, path, 1, 1
		return nil, Problems{*problem}
	}
	return parse(data, path, opts, writable)
}

// Parse does as Load for bytes that were read before. The path is only named in
// problems and kept in Config.Path. Parse does not keep data.
func Parse(data []byte, path string, opts Options) (*Config, Problems) {
	return parse(data, path, opts, false)
}

func parse(data []byte, path string, opts Options, writable bool) (*Config, Problems) {
	d := newDocument(data, path)
	if writable {
		d.warnAt(0, "", CodeWritable, "config file may be changed by every user of this machine",
			"it decides what programs run; take the permission away: chmod o-w")
	}
	cfg := d.read(data, opts)
	d.problems.sort()
	if opts.Strict {
		for i := range d.problems {
			d.problems[i].Severity = SeverityError
		}
	}
	if d.problems.Errors() > 0 {
		return nil, d.problems
	}
	cfg.Path = path
	return cfg, d.problems
}

// read returns the servers of the document; those with problems may be partial.
func (d *document) read(data []byte, opts Options) *Config {
	if len(data) > MaxFileSize {
		p := tooLarge()
		d.errorAt(0, "", p.Code, p.Message, p.Hint)
		return nil
	}
	workspace, err := opts.workspace()
	if err != nil {
		d.errorAt(0, "", CodeUnreadable, fmt.Sprintf("cannot tell the working directory: %v", err), "")
		return nil
	}
	tree := d.parseTree()
	if tree == nil {
		return nil
	}
	r := &reader{
		document: d,
		expander: expander{getenv: opts.getenv(), workspace: workspace, home: opts.userHome()},
		lookPath: opts.LookPath,
		ids:      map[string]int{},
		envFiles: map[string]envFile{},
		commands: map[[2]string]bool{},
	}
	r.root(tree)
	return &Config{Servers: r.servers, Index: r.catalogIndex}
}

// readFile returns the content of a regular file of bounded size and whether
// anybody may write it, or a problem without its place.
func readFile(path string) (data []byte, writable bool, problem *Problem) {
	// Asked before opening, because opening a FIFO would wait for its writer.
	info, err := os.Stat(path)
	if err != nil {
		return nil, false, fileProblem(err)
	}
	if problem := irregular(info); problem != nil {
		return nil, false, problem
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, false, fileProblem(err)
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, false, fileProblem(err)
	}
	if problem := irregular(info); problem != nil {
		return nil, false, problem
	}
	var buf bytes.Buffer
	if _, err := io.Copy(&buf, io.LimitReader(file, MaxFileSize+1)); err != nil {
		return nil, false, fileProblem(err)
	}
	if buf.Len() > MaxFileSize {
		return nil, false, tooLarge()
	}
	// Windows has no such bits; Go makes them up there.
	writable = runtime.GOOS != "windows" && info.Mode().Perm()&0o002 != 0
	return buf.Bytes(), writable, nil
}

func irregular(info fs.FileInfo) *Problem {
	switch {
	case info.IsDir():
		return &Problem{Code: CodeNotRegular, Message: "is a directory, not a config file"}
	case !info.Mode().IsRegular():
		return &Problem{Code: CodeNotRegular, Message: "is not a regular file"}
	case info.Size() > MaxFileSize:
		return tooLarge()
	}
	return nil
}

func tooLarge() *Problem {
	return &Problem{Code: CodeTooLarge, Message: fmt.Sprintf("file is larger than %d KiB", MaxFileSize>>10)}
}

// fileProblem leaves out the path that os puts into its errors: every problem
// names its file already.
func fileProblem(err error) *Problem {
	if errors.Is(err, fs.ErrNotExist) {
		return &Problem{Code: CodeNotFound, Message: "config file not found",
			Hint: "give another one with --config, or create it"}
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return &Problem{Code: CodeUnreadable, Message: fmt.Sprintf("cannot read config file: %v", err)}
}
