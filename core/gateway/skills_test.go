package gateway

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/skill"
)

// mainOf returns a SKILL.md that fits the entry that entryOf returns for its URI.
func mainOf(uri, text string) string {
	segments := strings.Split(uri, "/")
	return sessiontest.SkillMain(segments[len(segments)-2], `"<d> & e"`) + text
}

// entryOf returns the entry of a skill whose files have the given texts. The first is the URI of SKILL.md.
func entryOf(texts map[string]string, uri string, more ...string) json.RawMessage {
	segments := strings.Split(uri, "/")
	e := skill.Entry{URI: uri, Frontmatter: encode(map[string]string{"name": segments[len(segments)-2], "description": "<d> & e"})}
	for _, uri := range append(more, uri) {
		e.Files = append(e.Files, skill.File{URI: uri, Digest: catalog.Digest(sha256.Sum256([]byte(texts[uri]))), Size: int64(len(texts[uri]))})
	}
	return encode(e)
}

// withSkills makes a server serve skills and answer for the texts of their files, none of which it lists.
func withSkills(s *sessiontest.Fake, texts map[string]string, skills ...json.RawMessage) {
	s.Capabilities["extensions"] = map[string]any{mcp.ExtensionSkills: map[string]any{"directoryRead": true}}
	var list []any
	for _, raw := range skills {
		list = append(list, raw)
	}
	s.SetList(catalog.Skills, list...)
	for uri, text := range texts {
		s.Fail(sessiontest.Fault{Method: mcp.MethodReadResource, URI: uri, Result: map[string]any{"contents": []any{map[string]any{"uri": uri, "text": text}}}})
	}
	for _, raw := range skills {
		var e skill.Entry
		_ = json.Unmarshal(raw, &e)
		s.Fail(sessiontest.Fault{Method: mcp.MethodGetSkill, URI: e.URI, Result: map[string]any{"skill": raw, "ttlMs": 7}})
	}
}

func listSkills(w *fixture, c *session.Session) map[string]skill.Entry {
	w.Helper()
	list, err := c.List(w.Context(), catalog.Skills) // accepts only valid entries
	if err != nil {
		w.Fatal(err)
	}
	entries := map[string]skill.Entry{}
	for _, it := range list {
		e, err := skill.Parse(it.Raw)
		if err != nil {
			w.Fatal(err)
		}
		entries[it.Key] = e
	}
	return entries
}

// The skills of all servers are listed, got and read, whoever else has the same URIs, and whether or not
// another server fails.
func TestSkills(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		texts := map[string]map[string]string{}
		for _, id := range []string{"a", "b"} {
			texts[id] = map[string]string{}
			for _, uri := range []string{"skill://flow/SKILL.md", "skill://flow/scripts/run.sh", "skill://x/same/SKILL.md", "skill://x/same/y.txt", "skill://lone/SKILL.md", "skill://lone/z.txt", "skill://hidden/SKILL.md"} {
				if texts[id][uri] = uri + " of " + id; strings.HasSuffix(uri, skill.Main) {
					texts[id][uri] = mainOf(uri, id)
				}
			}
		}
		a, b, bad := w.Serve("a", era), w.Serve("b", era), w.Serve("bad", era)
		same := func(id string) json.RawMessage {
			return entryOf(texts[id], "skill://x/same/SKILL.md", "skill://x/same/y.txt")
		}
		withSkills(a, texts["a"], entryOf(texts["a"], "skill://flow/SKILL.md", "skill://flow/scripts/run.sh"), same("a"))
		withSkills(b, texts["b"], same("b"), entryOf(texts["b"], "skill://lone/SKILL.md", "skill://lone/z.txt"))
		withSkills(bad, nil)
		bad.Fail(sessiontest.Fault{Method: mcp.MethodListSkills, Code: mcp.CodeInternal, Message: "no"})
		a.Fail(sessiontest.Fault{Method: mcp.MethodGetSkill, URI: "skill://hidden/SKILL.md", Result: map[string]any{"skill": entryOf(texts["a"], "skill://hidden/SKILL.md")}})
		a.Fail(sessiontest.Fault{Method: mcp.MethodGetSkill, URI: "skill://other/SKILL.md", Result: map[string]any{"skill": same("a")}})
		a.Fail(sessiontest.Fault{Method: mcp.MethodGetSkill, URI: "skill://bad/SKILL.md", Result: map[string]any{"skill": map[string]any{"uri": "skill://bad/SKILL.md"}}})
		for _, uri := range []string{"skill://flow", "skill://x/same"} {
			a.Fail(sessiontest.Fault{Method: mcp.MethodReadDirectory, URI: uri, Result: map[string]any{"resources": []any{
				map[string]any{"uri": uri + "/scripts", "name": "scripts", "mimeType": "inode/directory"}}, "nextCursor": "n"}})
		}
		w.start(sessiontest.Entry("a"), sessiontest.Entry("b"), sessiontest.Entry("bad"))
		c := w.client(era)
		if !c.Info().Capabilities.SkillsDirectoryRead {
			t := c.Info().Capabilities
			w.Errorf("capabilities %+v", t)
		}
		const sameOfA, sameOfB = "skill://mcptrack/server/a/x/same/SKILL.md", "skill://mcptrack/server/b/x/same/SKILL.md"
		entries := listSkills(w, c)
		if got, want := slices.Sorted(maps.Keys(entries)), []string{"skill://flow/SKILL.md", "skill://lone/SKILL.md", sameOfA, sameOfB}; !slices.Equal(got, want) {
			w.Fatalf("skills %q, want %q", got, want)
		}
		for uri, e := range entries {
			if e.Description != "<d> & e" || len(e.Files) != 2 {
				w.Errorf("%+v", e)
			}
			for _, f := range e.Files {
				content, err := c.Read(w.Context(), f.URI)
				if err != nil {
					w.Fatalf("%s: %v", f.URI, err)
				}
				if text, _ := content.Text(); f.Verify([]byte(text)) != nil {
					w.Errorf("%s: %q", f.URI, text)
				}
			}
			got, err := w.do(c, mcp.MethodGetSkill, fmt.Sprintf(`{"uri":%q}`, uri))
			var result struct{ Skill skill.Entry }
			if err != nil || json.Unmarshal([]byte(got), &result) != nil || result.Skill.Digest() != e.Digest() {
				w.Errorf("%s: %s, %v", uri, got, err)
			}
			if strings.Contains(got, `"ttlMs":7`) != (era == session.EraModern) {
				w.Errorf("%s: %s", uri, got)
			}
		}
		// A skill that no server lists can be got by its qualified URI.
		got, err := w.do(c, mcp.MethodGetSkill, `{"uri":"skill://mcptrack/server/a/hidden/SKILL.md"}`)
		if err != nil || !strings.Contains(got, `"resources":[{"uri":"skill://mcptrack/server/a/hidden/SKILL.md"`) {
			w.Errorf("%s, %v", got, err)
		}
		for uri, want := range map[string]string{
			"skill://flow": `"uri":"skill://flow/scripts"`, "skill://mcptrack/server/a/x/same": `"uri":"skill://mcptrack/server/a/x/same/scripts"`,
		} {
			if got, err := w.do(c, mcp.MethodReadDirectory, fmt.Sprintf(`{"uri":%q}`, uri)); err != nil || !strings.Contains(got, want) || !strings.Contains(got, `"nextCursor":"n"`) {
				w.Errorf("%s: %s, %v", uri, got, err)
			}
		}
		for _, q := range [][2]string{
			{mcp.MethodGetSkill, "skill://x/same/SKILL.md"}, {mcp.MethodGetSkill, "skill://hidden/SKILL.md"}, {mcp.MethodGetSkill, "skill://none/SKILL.md"},
			{mcp.MethodGetSkill, "skill://mcptrack/server/none/x/SKILL.md"}, {mcp.MethodReadDirectory, "skill://x/same"}, {mcp.MethodReadDirectory, "skill://x"},
			{mcp.MethodReadDirectory, "skill://"}, {mcp.MethodGetSkill, "skill://mcptrack/server/a/other/SKILL.md"}, {mcp.MethodGetSkill, "skill://mcptrack/server/a/bad/SKILL.md"},
		} {
			rpc, ok := errors.AsType[*session.RPCError](failure(w.do(c, q[0], fmt.Sprintf(`{"uri":%q}`, q[1]))))
			want := mcp.CodeInvalidParams
			if strings.Contains(q[1], "a/other") || strings.Contains(q[1], "a/bad") {
				want = mcp.CodeInternal // the server's answer is not that skill
			}
			if !ok || rpc.Code != want {
				w.Errorf("%s: %v", q, rpc)
			}
		}
		// A URI is qualified only while it collides, and clients hear of every change.
		if _, err := c.Subscribe(w.Context(), session.Filter{Resources: true}); err != nil {
			w.Fatal(err)
		}
		c.Signals().Take()
		b.SetList(catalog.Skills)
		b.NotifyListChanged(catalog.Resources)
		w.advance(5 * time.Second)
		if got, want := slices.Sorted(maps.Keys(listSkills(w, c))), []string{"skill://flow/SKILL.md", "skill://x/same/SKILL.md"}; !slices.Equal(got, want) {
			w.Errorf("skills %q, want %q", got, want)
		}
		if lists := c.Signals().Take().Lists; len(lists) == 0 {
			w.Error("the client was not notified")
		}
	})
}

func failure(_ string, err error) error { return err }

// A skill of which another server has a URI is exported in qualified form with all its files, so that its
// entry stays consistent.
func TestSkillsThatCollideInOneFile(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		texts := map[string]string{"skill://s/SKILL.md": mainOf("skill://s/SKILL.md", "main"), "skill://s/y.txt": "y"}
		withSkills(w.Serve("a", era), texts, entryOf(texts, "skill://s/SKILL.md", "skill://s/y.txt"))
		w.Serve("b", era).SetQuietly("skill://s/y.txt", "another")
		w.start(sessiontest.Entry("a"), sessiontest.Entry("b"))
		c := w.client(era)
		e := listSkills(w, c)["skill://mcptrack/server/a/s/SKILL.md"]
		for _, f := range e.Files {
			if content, err := c.Read(w.Context(), f.URI); err != nil {
				w.Errorf("%s: %v", f.URI, err)
			} else if text, _ := content.Text(); f.Verify([]byte(text)) != nil {
				w.Errorf("%s: %q", f.URI, text)
			}
		}
		if len(e.Files) != 2 {
			w.Errorf("%+v", e)
		}
	})
}

// A skill is served only if the filter admits all its files.
func TestSkillsAreFiltered(t *testing.T) {
	for globs, want := range map[string]string{
		"":                                      "skill://a/SKILL.md skill://b/SKILL.md",
		"deny skill://a/scripts/**":             "skill://b/SKILL.md",
		"deny skill://*/SKILL.md":               "",
		"allow skill://a/**":                    "skill://a/SKILL.md",
		"allow skill://a/*":                     "",
		"deny mcptrack://server/**":             "",
		"deny skill://mcptrack/server/one/a/**": "skill://b/SKILL.md",
	} {
		t.Run(globs, func(t *testing.T) {
			inEras(t, func(w *fixture, era session.Era) {
				if kind, g, _ := strings.Cut(globs, " "); kind == "deny" {
					w.opts.Deny = []string{g}
				} else if kind == "allow" {
					w.opts.Allow = []string{g}
				}
				texts := map[string]string{}
				s := w.Serve("one", era)
				withSkills(s, texts, entryOf(texts, "skill://a/SKILL.md", "skill://a/scripts/run.sh"), entryOf(texts, "skill://b/SKILL.md"))
				w.start(sessiontest.Entry("one"))
				c := w.client(era)
				if got := strings.Join(slices.Sorted(maps.Keys(listSkills(w, c))), " "); got != want {
					w.Errorf("skills %s, want %s", got, want)
				}
				for _, uri := range []string{"skill://a/SKILL.md", "skill://b/SKILL.md"} {
					if _, err := w.do(c, mcp.MethodGetSkill, fmt.Sprintf(`{"uri":%q}`, uri)); (err == nil) != strings.Contains(want, uri) {
						w.Errorf("%s: %v", uri, err)
					}
				}
			})
		})
	}
}

// Entries that could deceive users or break clients are not listed, and nothing is removed from an entry.
func TestSkillsThatAreRefused(t *testing.T) {
	t.Parallel()
	entry := func(description, more string) string {
		return `{"uri":"skill://s/SKILL.md","frontmatter":{"name":"s","description":` + description + `},"resources":"dynamic"` + more + `}`
	}
	for raw, want := range map[string]string{
		entry(`"line\nline\t"`, ""):                           "",
		entry(`"hid\u200bden"`, ""):                           "hidden characters",
		entry(`"d","x":{"\udb40\udc41":1}`, ""):               "hidden characters",
		entry(`"d"`, `,"mcptrack/down":true`):                 "reserved",
		entry(`"`+strings.Repeat("d", 70_000)+`"`, ""):        "more than",
		entry(`"d"`, `,"x":"`+strings.Repeat("d", 3<<20)+`"`): "larger than",
		entry(`"d"`, `,"uri":"skill://s/SKILL.md"`):           "duplicate",
		`{"uri":"skill://s/SKILL.md"}`:                        "frontmatter",
	} {
		it, err := catalog.NewItem(catalog.Skills, json.RawMessage(raw))
		if err == nil {
			_, err = newItem(catalog.Skills, it)
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: %v, want %q", raw, err, want)
		}
	}
	var refused []string
	items := make([]item, 200)
	for i := range items {
		items[i] = item{key: fmt.Sprint(i), skill: &listedSkill{Entry: skill.Entry{Files: make([]skill.File, 512)}}}
		for f := range items[i].skill.Files {
			items[i].skill.Files[f].URI = fmt.Sprint(f)
		}
	}
	if got := limitSkills(items, func(key string, _ error) { refused = append(refused, key) }); len(got) != 97 || len(refused) != 103 {
		t.Errorf("%d skills are listed, %d refused", len(got), len(refused))
	}
}

// Events about skills and their files have the URIs under which the gateway exports them.
func TestNamesOfSkills(t *testing.T) {
	t.Parallel()
	var n Names
	n.start(contribution{}, nil)
	n.apply([]config.Server{{ID: "a"}, {ID: "b"}})
	list := func(server string, uris ...string) {
		var items []catalog.Item
		for _, uri := range uris {
			items = append(items, catalog.Item{Key: uri})
		}
		n.Listed(journal.ListName{ServerID: server, Kind: catalog.Skills}, catalog.NewList(items))
	}
	list("a", "skill://x/SKILL.md", "skill://y/SKILL.md")
	list("b", "skill://x/SKILL.md")
	for uri, want := range map[string]string{
		"skill://x/SKILL.md": "skill://mcptrack/server/a/x/SKILL.md", "skill://y/SKILL.md": "skill://y/SKILL.md",
	} {
		for _, k := range []catalog.Kind{catalog.Skills, catalog.Resources} {
			if got := n.export(k, target{"a", uri}); got != want {
				t.Errorf("%s %s: %s, want %s", k, uri, got, want)
			}
		}
	}
	if got := n.Exported(&event.Event{ServerID: "a", ResourceURI: "skill://y/scripts/z.sh", Payload: event.ResourceUpdated{}}); len(got) > 0 {
		t.Errorf("a file of a skill that does not collide: %v", got)
	}
}
