package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/edit"
	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// empty is the content of a new config.
const empty = "{\n  \"servers\": []\n}\n"

// An own is one of mcptrack's own configs, to which originals move.
type own struct {
	path   string // absolute
	folder string // of the project; "" for the user's config
	exists bool
	before []byte // content of the file
	text   []byte // content with the originals
	cfg    *config.Config
	opts   config.Options
	used   []string // ids of the servers to which entries refer now
}

// openOwn reads the config at a path, which need not exist.
func openOwn(path, folder string, opts config.Options) (*own, error) {
	c := &own{path: path, folder: folder, before: nil, text: []byte(empty), opts: opts}
	c.opts.Keyring = nil
	_, err := os.Lstat(path)
	if c.exists = !errors.Is(err, fs.ErrNotExist); c.exists {
		if c.text, err = secretfile.Load(path, config.MaxFileSize, 0); err != nil {
			return nil, err
		}
		c.before = c.text
		if err := inside(folder, path); err != nil {
			return nil, err
		}
	}
	return c, c.parse()
}

// inside returns an error if a file of a project is outside the project, through a symbolic link.
func inside(folder, path string) error {
	if folder == "" {
		return nil
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	root, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(root, real); err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("%s is a symbolic link that leads out of this folder", printable.Line(path, 200))
	}
	return nil
}

func (c *own) parse() error {
	load := config.LoadData
	if !c.exists {
		load = config.Parse
	}
	cfg, problems := load(c.text, c.path, c.opts)
	if cfg == nil {
		return &cli.Failure{Exit: cli.ExitConfig, Code: "config_invalid", Err: problems, Hint: "mcptrack validate " + printable.Shell(c.path) + " shows all problems"}
	}
	c.cfg = cfg
	return nil
}

// choose returns the id under which the config has a server, or will have it. known means that the
// config has it already: an entry that runs the same command with the same environment, or reaches the
// same URL with the same headers, whatever its name is, and is shared as the original says if it does. Otherwise the original keeps its id, unless
// another server has it.
func (c *own) choose(o *config.Original, host string) (id string, known bool, err error) {
	text, err := json.Marshal(config.Keys{{Name: "servers", Value: []config.Keys{entry(o, o.ID, false)}}})
	if err != nil {
		return "", false, err
	}
	other, problems := config.Parse(text, c.path, c.opts)
	if other == nil {
		return "", false, problems
	}
	says := slices.ContainsFunc(o.Keys, func(k config.Key) bool { return k.Name == "shared" })
	same := func(srv config.Server) bool {
		return srv.Enabled && (!says || srv.Sharing == other.Servers[0].Sharing) && srv.Transport == other.Servers[0].Transport && reflect.DeepEqual(srv.Intent.Keys, other.Servers[0].Intent.Keys)
	}
	if i := slices.IndexFunc(c.cfg.Servers, same); i >= 0 {
		if srv, ok := c.cfg.Server(o.ID); ok && same(srv) {
			return o.ID, true, nil
		}
		return c.cfg.Servers[i].ID, true, nil
	}
	id = o.ID
	for n := 1; ; n++ {
		if _, taken := c.cfg.Server(id); !taken {
			return id, false, nil
		}
		if id = o.ID + "-" + host; n > 1 {
			id += "-" + strconv.Itoa(n)
		}
	}
}

// entry returns the members of a server in a list. With unshared, each session has its own process.
func entry(o *config.Original, id string, unshared bool) config.Keys {
	keys := config.Keys{{Name: "id", Value: id}}
	for _, k := range o.Keys {
		if k.Name != "id" && k.Name != "enabled" && k.Name != "disabled" {
			keys = append(keys, k)
		}
	}
	if unshared {
		keys = append(keys, config.Key{Name: "shared", Value: false})
	}
	return keys
}

// servers returns the path of the list or object that contains the config's servers.
func servers(root *tree.Node) (path []string, value *tree.Node) {
	for _, name := range []string{"servers", "mcpServers"} {
		if m := root.Get(name); m != nil {
			return []string{name}, m.Value
		}
	}
	return nil, nil
}

// add adds a server to the text.
func (c *own) add(o *config.Original, id string, unshared bool) error {
	root, failure := tree.NewSource(c.text).Parse(tree.JSON)
	if failure != nil {
		return errors.New(failure.Message)
	}
	text := c.text
	path, list := servers(root)
	if list == nil {
		var err error
		if text, err = edit.Add(text, nil, "servers", []byte("[]")); err != nil {
			return err
		}
		path, list = []string{"servers"}, &tree.Node{Kind: tree.List}
	}
	keys := entry(o, id, unshared)
	if list.Kind == tree.Object {
		keys = keys[1:]
	}
	compact, err := keys.MarshalJSON()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, compact, "", "  "); err != nil {
		return err
	}
	if text, err = edit.Add(text, path, id, b.Bytes()); err != nil {
		return err
	}
	c.text = text
	return c.parse()
}

// find returns the path and the value of a server in the text, or nil if there is none.
func (c *own) find(id string) (path []string, value *tree.Node) {
	root, failure := tree.NewSource(c.text).Parse(tree.JSON)
	if failure != nil {
		return nil, nil
	}
	path, list := servers(root)
	if list == nil {
		return nil, nil
	}
	if m := list.Get(id); m != nil {
		return append(path, id), m.Value
	}
	for i, item := range list.Items {
		if m := item.Get("id"); m != nil && m.Value.Text == id {
			return append(path, strconv.Itoa(i)), item
		}
	}
	return nil, nil
}

// remove removes a server from the text if it still is what was added. It reports whether it was.
func (c *own) remove(id, added string) (bool, error) {
	path, value := c.find(id)
	if value == nil || edit.Digest(value) != added {
		return false, nil
	}
	text, err := edit.Remove(c.text, path)
	if err != nil {
		return false, err
	}
	c.text = text
	return true, nil
}

// write stores the text. If unused is set and the config has no servers, it removes the file. The
// user's config may contain secrets now, so that only the user can read it.
func (c *own) write(unused bool) error {
	if bytes.Equal(c.text, c.before) && c.exists {
		return nil
	}
	root, failure := tree.NewSource(c.text).Parse(tree.JSON)
	if unused && failure == nil {
		if _, list := servers(root); list != nil && len(root.Members) == 1 && len(list.Items)+len(list.Members) == 0 {
			if now, err := secretfile.Load(c.path, config.MaxFileSize, 0); err != nil || !bytes.Equal(now, c.before) {
				return changed(c.path)
			}
			return os.Remove(c.path)
		}
	}
	if !c.exists {
		if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
			return err
		}
		err := atomicfile.Create(c.path, 0o600, c.text)
		if errors.Is(err, fs.ErrExist) {
			return changed(c.path)
		}
		return err
	}
	if err := swap(c.path, c.before, c.text); err != nil {
		return err
	}
	if info, err := os.Stat(c.path); err == nil && c.folder == "" && info.Mode().Perm()&0o077 != 0 {
		_ = os.Chmod(c.path, info.Mode().Perm()&^0o077) // not supported on every file system
	}
	return nil
}

// restore undoes write.
func (c *own) restore() error {
	if c.exists {
		return swap(c.path, c.text, c.before)
	}
	if now, err := secretfile.Load(c.path, config.MaxFileSize, 0); err != nil || !bytes.Equal(now, c.text) {
		return changed(c.path)
	}
	return os.Remove(c.path)
}

func changed(path string) error {
	return &cli.Failure{Exit: cli.ExitFailed, Code: "changed", Err: fmt.Errorf("%s changed in the meantime; it was not written", printable.Line(path, 200)), Hint: "run the command again"}
}

// approve stores the user's approval of the servers that moved to a config of a project.
func (c *own) approve(env *cli.Env, g *cli.Globals) error {
	if c.folder == "" {
		return nil
	}
	of := *g
	of.Workspace, of.Config, of.Host = c.folder, "", ""
	p, err := of.Permission(env, c.path)
	if err != nil || !p.Needed {
		return err
	}
	return p.Approve(slices.DeleteFunc(cli.Entries(c.cfg), func(e cli.Entry) bool { return !slices.Contains(c.used, e.Name) }))
}
