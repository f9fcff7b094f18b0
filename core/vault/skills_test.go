package vault

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/skill"
)

// skillMD is a SKILL.md whose frontmatter has a name and more lines.
func skillMD(name string, more ...string) string {
	return "---\n" + strings.Join(append([]string{"name: " + name, "description: what it is for"}, more...), "\n") + "\n---\n# Do it\n"
}

// TestMediaTypes: what a machine knows of a media type is not in a lock of another one.
func TestMediaTypes(t *testing.T) {
	for _, name := range []string{"a.sh", "a.yaml", "a.ts"} {
		before := typeOf(name)
		if err := mime.AddExtensionType(filepath.Ext(name), "application/x-of-this-machine"); err != nil {
			t.Fatal(err)
		}
		if after := typeOf(name); after != before {
			t.Errorf("%s: %s, and %s on another machine", name, before, after)
		}
	}
}

// ask returns a member of the result of a request.
func ask[T any](g *testClient, method, member string, params map[string]any) (v T, err error) {
	g.t.Helper()
	answer, err := g.Do(g.t.Context(), session.Request{Method: method, Params: raw(params), Timeout: patience})
	if err != nil {
		return v, err
	}
	var members map[string]json.RawMessage
	must(g.t, json.Unmarshal(answer, &members))
	must(g.t, json.Unmarshal(members[member], &v))
	return v, nil
}

func get[T any](g *testClient, method, member string, params map[string]any) T {
	g.t.Helper()
	v, err := ask[T](g, method, member, params)
	must(g.t, err)
	return v
}

// content returns the bytes of a resource.
func (g *testClient) content(uri string) []byte {
	g.t.Helper()
	contents := get[[]struct{ URI, MimeType, Text, Blob string }](g, mcp.MethodReadResource, "contents", map[string]any{"uri": uri})
	if len(contents) != 1 || contents[0].URI != uri || contents[0].MimeType == "" {
		g.t.Fatalf("read %s: %+v", uri, contents)
	}
	blob, err := base64.StdEncoding.DecodeString(contents[0].Blob)
	must(g.t, err)
	return append(blob, contents[0].Text...)
}

// A skill whose SKILL.md was emptied a moment ago, as programs do that save in place, is still served. It
// is gone if the file stays empty.
func TestSkillStaysWhileItIsSaved(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, map[string]string{"a/SKILL.md": skillMD("a"), "b/SKILL.md": skillMD("b")})
	lists := func() string { return fmt.Sprint(len(h.vault.skillItems())) }
	const uri = "skill://a/SKILL.md"
	for range 3 {
		h.put("a/SKILL.md", "")
		if _, err := h.vault.readSkill(t.Context(), target{kind: kindSkill, path: "a/SKILL.md"}); errors.Is(err, ErrNotFound) || err == nil {
			t.Fatalf("%s: %v", uri, err)
		}
		if n := lists(); n != "2" {
			t.Fatalf("%s skills", n)
		}
		h.put("a/SKILL.md", skillMD("a", "license: MIT"))
	}
	h.put("a/SKILL.md", "")
	for began := time.Now(); lists() != "1"; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("the skill is still served")
		}
	}
}

// A host of either era finds, verifies, reads and follows skills, as the specification asks of hosts.
func TestSkills(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, connect func(*testServer) *testClient) {
		h := newTestServer(t, map[string]string{
			"note.md":                             "no skill",
			"team/git-flow/SKILL.md":              skillMD("git-flow", "metadata: {version: 1.0, tags: [a, b]}", "license: MIT"),
			"team/git-flow/scripts/run it#.sh":    "#!/bin/sh\r\n\tfalse\n",
			"team/git-flow/logo.png":              "\x89PNG\xff\x00",
			"team/git-flow/empty":                 "",
			"team/git-flow/deep/nested/SKILL.md":  skillMD("nested"),
			"team/git-flow/deep/nested/README.md": "r",
			"team/git-flow/.git/config":           "hidden",
			"team/git-flow/draft.tmp":             "of an editor",
		})
		g := connect(h)
		if caps := g.Info().Capabilities; !caps.Skills || !caps.SkillsDirectoryRead || !caps.Resources {
			t.Fatalf("capabilities %+v", caps)
		}
		const dir = "skill://team/git-flow"
		entries := get[[]skill.Entry](g, mcp.MethodListSkills, "skills", nil)
		if len(entries) != 2 || entries[0].URI != dir+"/SKILL.md" || entries[1].URI != dir+"/deep/nested/SKILL.md" {
			t.Fatalf("%+v", entries)
		}
		if got := string(entries[0].Frontmatter); got != `{"description":"what it is for","license":"MIT","metadata":{"tags":["a","b"],"version":1.0},"name":"git-flow"}` {
			t.Errorf("frontmatter %s", got)
		}
		for i, want := range [][]string{
			{"SKILL.md", "deep/nested/README.md", "deep/nested/SKILL.md", "empty", "logo.png", "scripts/run%20it%23.sh"}, {"README.md", "SKILL.md"},
		} {
			var files []string
			for _, f := range entries[i].Files {
				files = append(files, strings.TrimPrefix(f.URI, entries[i].Dir()+"/"))
				must(t, entries[i].Verify(f.URI, g.content(f.URI)))
			}
			if !slices.Equal(files, want) {
				t.Errorf("files %q, want %q", files, want)
			}
			if got := get[skill.Entry](g, mcp.MethodGetSkill, "skill", map[string]any{"uri": entries[i].URI}); got.Digest() != entries[i].Digest() {
				t.Errorf("skills/get differs: %+v", got)
			}
		}
		list, err := g.List(t.Context(), catalog.Resources)
		must(t, err)
		if it, _ := list.Get(entries[0].URI); string(it.Raw) != `{"description":"what it is for","mimeType":"text/markdown","name":"git-flow","uri":"skill://team/git-flow/SKILL.md"}` {
			t.Errorf("resources/list has %s", it.Raw)
		}

		// Neither a skill, nor a folder or file of one.
		for method, uris := range map[string][]string{
			mcp.MethodGetSkill: {"skill://none/SKILL.md", dir, dir + "/empty", "skill://team%2Fgit-flow/SKILL.md", "vault://recent", "skill://team/SKILL.md"},
			mcp.MethodReadDirectory: {"skill://team", "skill://", dir + "/", dir + "/SKILL.md", dir + "/none", dir + "/.git", "vault://folder/team",
				"skill://note.md", "skill://../x"},
			mcp.MethodReadResource: {"skill://note.md", dir, dir + "/draft.tmp", dir + "/.git/config", dir + "/../note.md", dir + "/%2e%2e/%2e%2e/note.md", dir + "/none"},
		} {
			for _, uri := range uris {
				_, err := ask[any](g, method, "skill", map[string]any{"uri": uri})
				rpc, ok := errors.AsType[*session.RPCError](err)
				legacyMissing := method == mcp.MethodReadResource && g.Info().Era == session.EraLegacy
				if !ok || rpc.Code != mcp.CodeInvalidParams && (!legacyMissing || rpc.Code != mcp.CodeResourceNotFound) {
					t.Errorf("%s %s: %v", method, uri, err)
				}
			}
		}
		children := get[[]Child](g, mcp.MethodReadDirectory, "resources", map[string]any{"uri": dir})
		var names []string
		for _, c := range children {
			names = append(names, fmt.Sprintf("%s %s", strings.TrimPrefix(c.URI, dir+"/"), c.MIME))
		}
		if want := []string{"SKILL.md text/markdown", "deep inode/directory", "empty ", "logo.png image/png", "scripts inode/directory"}; !slices.Equal(names, want) {
			t.Errorf("children %q, want %q", names, want)
		}
		if children := get[[]Child](g, mcp.MethodReadDirectory, "resources", map[string]any{"uri": dir + "/deep/nested", "cursor": "README.md"}); len(children) != 1 || children[0].Name != "SKILL.md" {
			t.Errorf("children after README.md: %+v", children)
		}

		// A change of a file is a change of both skills that contain it, and of nothing else.
		file := entries[1].Dir() + "/README.md"
		if ack := g.subscribe(file, dir+"/empty"); len(ack.MissingURIs) > 0 {
			t.Fatalf("not subscribed to %q", ack.MissingURIs)
		}
		h.put("team/git-flow/deep/nested/README.md", "changed")
		g.waitUpdated(file)
		for _, was := range entries {
			entry := func() skill.Entry {
				return get[skill.Entry](g, mcp.MethodGetSkill, "skill", map[string]any{"uri": was.URI})
			}
			now := entry()
			for now.Verify(file, g.content(file)) != nil { // the first update may be about the file while it is written
				<-time.After(10 * time.Millisecond)
				now = entry()
			}
			if d := skill.Diff(was.Files, now.Files); len(d.Changed) != 1 || d.Changed[0].URI != file || len(d.Added)+len(d.Removed) > 0 {
				t.Errorf("%s: %+v", was.URI, d)
			}
		}
		if n := g.updateCounts()[dir+"/empty"]; n > 0 {
			t.Errorf("a file that did not change was updated %d times", n)
		}
		// A skill whose frontmatter becomes invalid is not served, and its files neither.
		g.forget()
		h.put("team/git-flow/SKILL.md", "---\nname: other\ndescription: d\n---")
		g.waitUpdated(dir + "/empty")
		if _, err := g.Read(t.Context(), dir+"/empty"); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("a file of a skill that is not served: %v", err)
		}
		if entries := get[[]skill.Entry](g, mcp.MethodListSkills, "skills", nil); len(entries) != 1 || entries[0].Name != "nested" {
			t.Errorf("%+v", entries)
		}
	})
}

// A vault may itself be a skill. Its URIs then begin with the name of the folder.
func TestVaultIsASkill(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pdf")
	put(t, filepath.Join(dir, "SKILL.md"), skillMD("pdf"))
	put(t, filepath.Join(dir, "forms", "SKILL.md"), skillMD("forms"))
	put(t, filepath.Join(dir, "forms", "x.py"), "x")
	e := open(t, quick(dir))
	var uris []string
	for _, k := range e.now.Load().skills.list {
		uris = append(uris, fmt.Sprint(k.URI, len(k.Files)))
	}
	if want := []string{"skill://pdf/SKILL.md3", "skill://pdf/forms/SKILL.md2"}; !slices.Equal(uris, want) {
		t.Errorf("%q, want %q", uris, want)
	}
	if got := e.read("skill://pdf/forms/x.py"); got != "x" {
		t.Errorf("read %q", got)
	}
	children, err := e.ReadFolder("skill://pdf")
	if err != nil || len(children) != 2 || children[1].URI != "skill://pdf/forms" {
		t.Errorf("%+v %v", children, err)
	}
	e.forget()
	must(t, os.Remove(filepath.Join(dir, "SKILL.md")))
	e.waitUpdated("skill://pdf/forms/x.py")
	if got := e.read("skill://forms/x.py"); got != "x" {
		t.Errorf("read %q", got)
	}
}

// A list that a client requests after a read is never older than what it read, although the file is
// replaced all the time and events arrive late.
func TestListIsNotOlderThanContent(t *testing.T) {
	t.Parallel()
	dir := vaultOf(t, map[string]string{"s/SKILL.md": skillMD("s"), "s/data.txt": "0"})
	opts := quick(dir)
	opts.Quiet = patience // no event takes effect
	e := open(t, opts)
	versions := map[catalog.Digest]int{}
	for i := range 50 {
		text := fmt.Sprint(i)
		versions[catalog.Digest(sha256.Sum256([]byte(text)))] = i
		save(t, filepath.Join(dir, "s", "data.txt"), text)
		if got := e.read("skill://s/data.txt"); got != text {
			t.Fatalf("read %q, want %q", got, text)
		}
		item, err := e.Skill("skill://s/SKILL.md")
		must(t, err)
		entry, err := skill.Parse(item)
		must(t, err)
		f, _ := entry.File("skill://s/data.txt")
		if version, known := versions[f.Digest]; !known || version < i {
			t.Fatalf("after version %d was read, the list has version %d", i, version)
		}
	}
	// A read gives up on a file that differs whenever it is read, or when its client does.
	must(t, os.Remove(filepath.Join(dir, "s", "data.txt")))
	if _, err := e.Read(t.Context(), "skill://s/data.txt"); !errors.Is(err, ErrNotFound) {
		t.Errorf("read of a removed file: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTestOver)
	save(t, filepath.Join(dir, "s", "SKILL.md"), skillMD("s", "license: new"))
	if _, err := e.Read(ctx, "skill://s/SKILL.md"); !errors.Is(err, errTestOver) {
		t.Errorf("read of a client that has gone: %v", err)
	}
}

// Every folder that cannot be served as a skill is left out for a reason that the log tells, and
// affects no other skill. Nothing outside of the vault is read, and nothing blocks.
func TestFoldersThatAreNoSkills(t *testing.T) {
	t.Parallel()
	many := func(n, size int) map[string]string {
		files := map[string]string{}
		for i := range n {
			files[fmt.Sprintf("f%d.bin", i)] = strings.Repeat("x", size)
		}
		return files
	}
	var bomb strings.Builder
	bomb.WriteString("---\nname: s\ndescription: d\na: &a [x,x,x,x,x,x,x,x,x]\n")
	for c := 'b'; c <= 'k'; c++ {
		bomb.WriteString(fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1))
	}
	for name, c := range map[string]struct {
		main   string // SKILL.md
		files  map[string]string
		served bool
		log    string
	}{
		"good":                      {main: skillMD("s"), served: true},
		"with a byte order mark":    {main: "\ufeff" + skillMD("s"), served: true},
		"512 files":                 {main: skillMD("s"), files: many(511, 1), served: true},
		"513 files":                 {main: skillMD("s"), files: many(512, 1), log: "more than 512 files"},
		"16 MiB":                    {main: skillMD("s"), files: many(4, 4<<20), log: "more than 16 MiB"},
		"a large file":              {main: skillMD("s"), files: many(1, 4<<20+1), log: "s/f0.bin: too large"},
		"a large note":              {main: skillMD("s"), files: map[string]string{"x.md": strings.Repeat("x", 4<<20+1)}, log: "s/x.md: too large"},
		"no frontmatter":            {main: "# Skill", log: "does not begin with frontmatter"},
		"no end of frontmatter":     {main: "---\nname: s\n", log: "does not end"},
		"1 MiB of frontmatter":      {main: skillMD("s", "x: "+strings.Repeat("y", 1<<20)), log: "does not end within"},
		"no YAML":                   {main: "---\nname: [s\n---\n", log: "not valid YAML"},
		"TOML":                      {main: "+++\nname = 's'\n+++\n", log: "does not begin with frontmatter"},
		"a list":                    {main: "---\n- s\n---\n", log: "not a YAML mapping"},
		"a bomb of aliases":         {main: bomb.String() + "---\n", log: "not valid YAML"},
		"deep frontmatter":          {main: skillMD("s", "x: "+strings.Repeat("[", 500)+strings.Repeat("]", 500)), log: "not served"},
		"a name twice":              {main: skillMD("s", "name: s"), log: "occurs twice"},
		"another name":              {main: skillMD("t"), log: `the directory "s" is not the name "t"`},
		"a number as name":          {main: "---\nname: 7\ndescription: d\n---\n", log: "a name and a description"},
		"no description":            {main: "---\nname: s\n---\n", log: "a name and a description"},
		"an empty description":      {main: "---\nname: s\ndescription: ''\n---\n", log: "1 to 1024 characters"},
		"a long description":        {main: "---\nname: s\ndescription: " + strings.Repeat("é", 1025) + "\n---\n", log: "1 to 1024 characters"},
		"the longest description":   {main: "---\nname: s\ndescription: " + strings.Repeat("é", 1024) + "\n---\n", served: true},
		"a hidden name of a file":   {main: skillMD("s"), files: map[string]string{"a\u200bb": "x"}, log: "invalid segment"},
		"a control character":       {main: skillMD("s"), files: map[string]string{"a\x1bb": "x", "b\nc": "x"}, served: true, log: "without s/a"},
		"a backslash":               {main: skillMD("s"), files: map[string]string{`a\x`: "x"}, served: true, log: "unprintable name"},
		"percent signs":             {main: skillMD("s"), files: map[string]string{"%2e%2e": "x", "a%2fb": "x"}, served: true},
		"names that differ by case": {main: skillMD("s"), files: map[string]string{"a.txt": "1", "A.txt": "2", "skill.md": "3"}, served: true},
		"a long path":               {main: skillMD("s"), files: map[string]string{strings.Repeat(strings.Repeat("é", 120)+"/", 4) + "x": "x"}, log: "longer than 2048 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := vaultOf(t, map[string]string{"s/SKILL.md": c.main, "z-1/SKILL.md": skillMD("z-1")})
			for path, content := range c.files {
				put(t, filepath.Join(dir, "s", path), content)
			}
			var log bytes.Buffer // Run's goroutine writes before it is ready
			opts := quick(dir)
			opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
			v, err := Open(opts)
			must(t, err)
			defer v.Close()
			u := updater{Vault: v, Listener: Listener{Subscribed: func() []string { return nil }, Updated: func(...string) {}, Listed: func(_, _ []json.RawMessage) {}},
				retries: map[string]int{}}
			u.refresh(t.Context(), nil, true)
			k := v.now.Load().skills
			if k.byDir["z-1"] == nil {
				t.Error("the other skill is not served")
			}
			one := k.byDir["s"]
			if (one != nil) != c.served || !strings.Contains(strings.ReplaceAll(log.String(), `\"`, `"`), c.log) || strings.Contains(log.String(), "folder") != (c.log != "") {
				t.Errorf("served %v, want %v; log %q, want %q", one != nil, c.served, log.String(), c.log)
			}
			if one == nil {
				return
			}
			for _, f := range one.Files {
				content, err := v.Read(t.Context(), f.URI)
				must(t, err)
				must(t, one.Verify(f.URI, []byte(content.Text)))
			}
			before := log.Len()
			u.refresh(t.Context(), nil, true)
			if log.Len() != before {
				t.Errorf("logged again: %s", log.String()[before:])
			}
		})
	}
}

// Names of skills follow the rules of Agent Skills.
func TestNamesOfSkills(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	good := []string{"a", "a-b", "7", "x9-y", strings.Repeat("n", 64)}
	for _, name := range append([]string{"A", "-a", "a-", "a--b", "a_b", "a.b", "é", "a b", "a:b@c", strings.Repeat("n", 65)}, good...) {
		files[name+"/SKILL.md"] = skillMD("'" + name + "'")
	}
	e := open(t, quick(vaultOf(t, files)))
	var served []string
	for _, k := range e.now.Load().skills.list {
		served = append(served, k.Name)
	}
	slices.Sort(good)
	if slices.Sort(served); !slices.Equal(served, good) {
		t.Errorf("served %q, want %q", served, good)
	}
}

// The skills of one vault, nested ones included, list at most MaxEntries files.
func TestSkillsAreBounded(t *testing.T) {
	t.Parallel()
	files, dir := map[string]string{}, ""
	for range 30 {
		dir += "n/"
		files[dir+"SKILL.md"] = skillMD("n")
	}
	opts := quick(vaultOf(t, files))
	opts.MaxEntries = 100
	e := open(t, opts)
	total := 0
	for _, k := range e.now.Load().skills.list {
		total += len(k.Files)
	}
	if skills := e.Skills(); total < 100 || total > 130 || skills == 30 {
		t.Errorf("%d skills list %d files", skills, total)
	}
}
