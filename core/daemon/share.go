package daemon

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
)

// identity contains everything that two clients must have in common to share a server.
type identity struct {
	Transport                    config.Transport
	Fallback                     bool
	Command                      string
	Args                         []string
	Env                          map[string]string
	Dir                          string
	URL                          string
	Headers                      map[string]string
	OAuth                        config.OAuth
	ClientSecret                 string
	Missing                      []string
	Protocol                     config.Protocol
	ConnectTimeout, CatalogEvery int64
	OnConnect                    []config.ToolCall
	NoEvents                     bool
	Unapproved                   string
	Enabled                      bool
	Folder, Client               string
	Programs                     map[string]string
	Inherited                    map[string]string
}

// idDigits is the number of hexadecimal digits after the "~" of a tracked server's id.
const idDigits = 12

// client is a client, as far as it determines which servers it shares.
type client struct {
	ipc.Hello
	name       string            // what an MCP client calls itself
	realFolder string            // Hello.Folder without symbolic links; empty if it cannot be read
	env        map[string]string // the variables that the daemon asked the client for
	inherited  map[string]string // the variables that its servers inherit; see Daemon.inherited
	slot       string            // see Daemon.takeSlot; empty if it has none
	asOf       uint64            // value of Daemon.edits before the config was read
}

// inherited returns the names of the variables of a client that its servers inherit, as they would
// without the daemon. PATH is a member of [ipc.Hello]. TERM differs in each terminal, and a server has none.
func (d *Daemon) inherited() []string {
	return slices.DeleteFunc(slices.Clone(d.opts.Inherited), func(name string) bool { return name == "PATH" || name == "TERM" })
}

// inheritedBy returns the variables that a server inherits from a client: those that its entry does not set.
func (c client) inheritedBy(srv *config.Server) map[string]string {
	if srv.Transport != config.TransportStdio {
		return nil
	}
	vars := maps.Clone(c.inherited)
	maps.DeleteFunc(vars, func(name, _ string) bool {
		_, own := srv.Env[name]
		return own
	})
	return vars
}

// mayUse reports whether a command in the folder of c may see the servers that another client has: the
// clients may differ in PATH and language, as terminals and hosts do, but not in their folders.
func (c client) mayUse(other client) bool {
	language := func(name, _ string) bool { return strings.HasPrefix(name, "LANG") || strings.HasPrefix(name, "LC_") }
	ours, theirs := maps.Clone(c.inherited), maps.Clone(other.inherited)
	maps.DeleteFunc(ours, language)
	maps.DeleteFunc(theirs, language)
	return c.Folder == other.Folder && maps.Equal(ours, theirs)
}

// trackedID returns the id under which the tracker knows a server of a client: the id in the
// client's config, "~", and digits that depend on everything that must be equal for the server to be
// shared. key prevents others from guessing secrets from ids; with the same key, a server has the
// same id after a restart.
//
// Two terminals rarely have exactly the same PATH. What counts is therefore which programs start the
// server; see programs.
func trackedID(key []byte, srv *config.Server, who client) string {
	id := identity{
		Transport: srv.Transport, Fallback: srv.Fallback, Command: srv.Command, Args: srv.Args, Env: revealed(srv.Env), Dir: srv.Dir,
		URL: srv.URL.Reveal(), Headers: revealed(srv.Headers), OAuth: srv.OAuth, ClientSecret: srv.OAuth.ClientSecret.Reveal(),
		Missing: srv.Missing, Protocol: srv.Protocol, ConnectTimeout: int64(srv.ConnectTimeout), CatalogEvery: int64(srv.CatalogInterval),
		OnConnect: srv.OnConnect, NoEvents: srv.Events.Off, Enabled: srv.Enabled,
		Inherited: who.inheritedBy(srv),
	}
	if !srv.Superseded {
		id.Unapproved = srv.Unapproved
	}
	if _, own := srv.Env["PATH"]; !own && srv.Transport == config.TransportStdio {
		id.Programs = programs(who.Path, srv.Command)
	}
	switch srv.Sharing {
	case config.SharedByMachine:
		if srv.Dir == who.Folder && (filepath.Base(srv.Command) == srv.Command || filepath.IsAbs(srv.Command)) {
			id.Dir = "" // it has no "cwd", and need not run in the client's folder
		}
	case config.NotShared:
		id.Folder, id.Client = who.Folder, who.owner()
	default:
		id.Folder = who.Folder
	}
	data, err := json.Marshal(id)
	if err != nil {
		panic(err) // the arguments of tool calls came from JSON
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(data)
	return srv.ID + "~" + hex.EncodeToString(mac.Sum(nil))[:idDigits]
}

// programs returns the files that a PATH provides for a command: its own, that of the interpreter in
// its first line (#!/usr/bin/env node), and for uv those of Python.
func programs(path, command string) map[string]string {
	found := map[string]string{}
	names := []string{command}
	if base := filepath.Base(command); base == "uv" || base == "uvx" {
		names = append(names, "python3", "python")
	}
	for len(names) > 0 && len(found) < maxPrograms {
		name := names[0]
		names = names[1:]
		file := fileOf(path, name)
		if file == "" || found[name] != "" {
			continue
		}
		found[name] = file
		if interpreter := interpreterOf(file); interpreter != "" {
			names = append(names, interpreter)
		}
	}
	return found
}

// maxPrograms limits a chain of interpreters.
const maxPrograms = 8

// fileOf returns the file of a program, or "" if there is none.
func fileOf(path, name string) string {
	if strings.ContainsAny(name, `/\`) {
		return name
	}
	for _, dir := range filepath.SplitList(path) {
		if file, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(dir) {
			return file
		}
	}
	return ""
}

// interpreterOf returns the name of the interpreter that env looks up in PATH to run a script, or "".
func interpreterOf(file string) string {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() { // a FIFO would block Open
		return ""
	}
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	start := make([]byte, 256)
	n, _ := io.ReadFull(f, start) // a short file is no error
	line, _, _ := strings.Cut(string(start[:n]), "\n")
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if !strings.HasPrefix(line, "#!") || len(words) < 2 || filepath.Base(words[0]) != "env" {
		return ""
	}
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
			return word
		}
	}
	return ""
}

func revealed(secrets map[string]config.Secret) map[string]string {
	out := make(map[string]string, len(secrets))
	for name, s := range secrets {
		out[name] = s.Reveal()
	}
	return out
}

// merge returns an entry that follows everything that either of two entries for the same server
// follows.
func merge(a, b config.Server) config.Server {
	out := b
	switch {
	case a.TrackResources && !b.TrackResources:
		out.Tracking = a.Tracking
	case a.TrackResources && b.TrackResources:
		out.Include = nil
		if len(a.Include) > 0 && len(b.Include) > 0 {
			out.Include = slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.Include, b.Include))))
		}
		out.Exclude = slices.DeleteFunc(slices.Clone(a.Exclude), func(glob string) bool { return !slices.Contains(b.Exclude, glob) })
		out.Unasked = a.Unasked && b.Unasked
		if a.Read == config.ReadDigest {
			out.Read = config.ReadDigest
		}
	}
	out.TrackTools = a.TrackTools || b.TrackTools
	out.TrackPrompts = a.TrackPrompts || b.TrackPrompts
	out.TrackSkills = a.TrackSkills || b.TrackSkills
	out.Events.All = a.Events.All || b.Events.All
	out.Idle = max(cmp.Or(a.Idle, config.DefaultIdle), cmp.Or(b.Idle, config.DefaultIdle))
	out.RequestTimeout = max(a.RequestTimeout, b.RequestTimeout)
	return out
}
