package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/skill"
)

func TestListSkills(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern %t", modern), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(!modern, modern)
				srv.OfferSkills()
				srv.PageSize, srv.TTL = 1, 90_000
				srv.SetList(catalog.Skills,
					sessiontest.Skill("review", "Reviews code", map[string]string{"checks/go.md": "vet"}),
					map[string]any{"uri": "skill://daily/SKILL.md", "frontmatter": map[string]any{"name": "daily", "description": "d"}, "resources": "dynamic"},
					map[string]any{"uri": "skill://bad\u202e/SKILL.md", "frontmatter": map[string]any{"name": "bad", "description": "d"}, "resources": []any{}},
					map[string]any{"uri": "skill://a/../b/SKILL.md", "frontmatter": map[string]any{"name": "b", "description": "d"}, "resources": "dynamic"})
				s := over(t, srv, config.Server{}, session.Options{})
				skills, err := s.ListSkills(t.Context())
				if err != nil || fmt.Sprint(skills.List.Keys()) != "[skill://daily/SKILL.md skill://review/SKILL.md]" || skills.Left != 2 || len(skills.Invalid) != 2 {
					t.Errorf("%v %v, %v", skills.List.Keys(), skills.Invalid, err)
				}
				if want := 90 * time.Second; modern && skills.TTL != want || !modern && skills.TTL != 0 {
					t.Errorf("TTL %s", skills.TTL)
				}
				if it, _ := skills.List.Get("skill://review/SKILL.md"); it.Describe().Name != "review" || it.Describe().Description != "Reviews code" {
					t.Errorf("described as %+v", it.Describe())
				}
				if srv.Count("resources/read") > 0 {
					t.Error("files were read")
				}
				e, err := s.GetSkill(t.Context(), "skill://review/SKILL.md")
				if err != nil || len(e.Files) != 2 {
					t.Errorf("%+v, %v", e, err)
				}
				if _, err := s.GetSkill(t.Context(), "skill://other/SKILL.md"); !errors.Is(err, session.ErrNotFound) {
					t.Errorf("unknown skill: %v", err)
				}
				another := sessiontest.Skill("another", "d", nil)
				srv.Fail(sessiontest.Fault{Method: "skills/get", Result: map[string]any{"skill": another}})
				if _, err := s.GetSkill(t.Context(), "skill://review/SKILL.md"); err == nil || !strings.Contains(err.Error(), "another") {
					t.Errorf("the answer has another skill: %v", err)
				}
			})
		})
	}
}

// The order of files and members that nobody knows are no change.
func TestSkillsAreNormalized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, true)
		srv.OfferSkills()
		entry := sessiontest.Skill("review", "d", map[string]string{"a": "a", "b": "b"})
		srv.SetList(catalog.Skills, entry)
		s := over(t, srv, config.Server{}, session.Options{})
		digest := func() catalog.Digest {
			list, err := s.List(t.Context(), catalog.Skills)
			if err != nil || len(list) != 1 {
				t.Fatalf("%v, %v", list, err)
			}
			return list[0].Digest
		}
		before := digest()
		files := entry["resources"].([]any)
		files[0], files[2] = files[2], files[0]
		entry["_meta"] = map[string]any{"seen": 7}
		srv.SetList(catalog.Skills, entry)
		if digest() != before {
			t.Error("another order is a change")
		}
		files[0].(map[string]any)["digest"] = "sha256:" + strings.Repeat("a", 64)
		srv.SetList(catalog.Skills, entry)
		if digest() == before {
			t.Error("another digest does not count as a change")
		}
	})
}

func TestHostileSkills(t *testing.T) {
	one := sessiontest.Skill("one", "d", nil)
	for name, set := range map[string]func(*sessiontest.Fake){
		"not implemented": func(s *sessiontest.Fake) {
			s.Fail(sessiontest.Fault{Method: "skills/list", Code: -32601, Message: "no"})
		},
		"no answer": func(s *sessiontest.Fake) { s.Fail(sessiontest.Fault{Method: "skills/list", Silent: true}) },
		"no list": func(s *sessiontest.Fake) {
			s.Fail(sessiontest.Fault{Method: "skills/list", Result: json.RawMessage(`{"skills":{}}`)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(true, true)
				srv.OfferSkills()
				srv.SetList(catalog.Skills, one)
				set(srv)
				s := over(t, srv, config.Server{RequestTimeout: time.Second}, session.Options{})
				if skills, err := s.ListSkills(t.Context()); err == nil || len(skills.List) > 0 {
					t.Errorf("%+v, %v", skills, err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, true)
		srv.OfferSkills()
		srv.Fail(sessiontest.Fault{Method: "skills/list", Result: map[string]any{"skills": []any{one, sessiontest.Skill("one", "another", nil)}, "ttlMs": "soon"}})
		s := over(t, srv, config.Server{}, session.Options{})
		skills, err := s.ListSkills(t.Context())
		if err != nil || len(skills.List) != 1 || skills.List[0].Describe().Description != "d" || skills.Left != 1 || !strings.Contains(skills.Invalid[0], "twice") {
			t.Errorf("a skill that is listed twice: %+v, %v", skills, err)
		}
	})
}

// What is read of a skill is what its entry says, or an error.
func TestReadSkillFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, true)
		srv.OfferSkills()
		srv.SetQuietly("skill://review/SKILL.md", sessiontest.SkillMain("review", "d"))
		srv.SetQuietly("skill://review/a/lied.md", "EVIL")
		srv.SetQuietly("skill://review/unlisted.md", "x")
		srv.SetResource("skill://review/a/blob", sessiontest.Resource{Blob: []byte{0xff, 0}})
		srv.SetQuietly("file:///a", "x")
		srv.SetList(catalog.Skills, sessiontest.Skill("review", "d", map[string]string{"a/lied.md": "good", "a/blob": "\xff\x00"}),
			map[string]any{"uri": "skill://daily/SKILL.md", "frontmatter": map[string]any{"name": "daily", "description": "d"}, "resources": "dynamic"})
		srv.SetQuietly("skill://daily/today.md", "x")
		srv.SetQuietly("skill://daily/SKILL.md", sessiontest.SkillMain("daily", "EVIL"))
		s := over(t, srv, config.Server{}, session.Options{})
		for uri, want := range map[string]string{
			"skill://review/SKILL.md":    "",
			"skill://review/a/blob":      "",
			"skill://review/a/lied.md":   "digest",
			"skill://review/unlisted.md": "not list",
			"skill://daily/today.md":     "",
			"skill://daily/SKILL.md":     "frontmatter",
		} {
			e, err := s.SkillOf(t.Context(), uri)
			if err != nil || e == nil {
				t.Fatalf("%s: %v, %v", uri, e, err)
			}
			c, err := s.ReadSkillFile(t.Context(), e, uri)
			bad, _ := errors.AsType[*skill.Mismatch](err)
			if want == "" && err != nil || want != "" && (bad == nil || c != nil || !strings.Contains(bad.Reason, want)) {
				t.Errorf("%s: %v, want %q", uri, err, want)
			}
		}
		for _, m := range srv.Wire() {
			if strings.Contains(string(m.Params), "unlisted") {
				t.Errorf("a file that is not listed was requested: %s %s", m.Method, m.Params)
			}
		}
		if e, err := s.SkillOf(t.Context(), "file:///a"); e != nil || err != nil {
			t.Errorf("%v, %v", e, err)
		}
		// A skill that is not listed is found all the same, and the innermost skill counts.
		srv.Fail(sessiontest.Fault{Method: "skills/list", Result: map[string]any{"skills": []any{}}, Times: 1})
		if e, err := s.SkillOf(t.Context(), "skill://review/a/lied.md"); err != nil || e == nil || e.Name != "review" {
			t.Errorf("%v, %v", e, err)
		}
		// A file that no skill has is not read as if it belonged to none, and an invalid entry is not ignored.
		for _, uri := range []string{"SKILL://review/SKILL.md", "skill://review/../review/SKILL.md", "skill://%72eview/SKILL.md", "skill://none/a.md"} {
			e, err := s.SkillOf(t.Context(), uri)
			if _, ok := errors.AsType[*skill.Mismatch](err); !ok || e != nil {
				t.Errorf("%s: %v, %v", uri, e, err)
			}
		}
		srv.Fail(sessiontest.Fault{Method: "skills/list", Result: map[string]any{"skills": []any{map[string]any{"uri": "x://bad/SKILL.md", "frontmatter": 1}}}, Times: 1})
		if e, err := s.SkillOf(t.Context(), "x://bad/a.md"); err == nil || e != nil || !strings.Contains(err.Error(), "must not be loaded: skill x://bad/SKILL.md: ") {
			t.Errorf("%v, %v", e, err)
		}
		srv.Fail(sessiontest.Fault{Method: "resources/read", Result: json.RawMessage(`{"contents":[]}`)})
		e, err := s.SkillOf(t.Context(), "skill://review/SKILL.md")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.ReadSkillFile(t.Context(), e, e.URI); err == nil {
			t.Error("no content was accepted")
		}
	})
}
