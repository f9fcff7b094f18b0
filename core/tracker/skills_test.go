package tracker

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/skill"
)

const reviewURI = "skill://review/SKILL.md"

// skillEvents returns the published events about skills as lines.
func (w *world) skillEvents() (lines []string) {
	for _, e := range w.published(event.TypeSkillAdded, event.TypeSkillChanged, event.TypeSkillRemoved) {
		var line strings.Builder
		line.WriteString(string(e.Type()) + " " + e.ResourceURI + " " + string(e.Cause))
		if p, ok := e.Payload.(event.SkillChanged); ok {
			if p.Frontmatter {
				line.WriteString(" frontmatter")
			}
			for _, f := range p.Added {
				line.WriteString(" +" + f.URI)
			}
			for _, f := range p.Removed {
				line.WriteString(" -" + f.URI)
			}
			for _, f := range p.Changed {
				line.WriteString(" ~" + f.URI)
				if f.Digest == f.PreviousDigest || f.Digest.IsZero() || f.PreviousDigest.IsZero() || f.PreviousSize == nil {
					w.Errorf("file %+v", f)
				}
			}
			if p.Digest == p.PreviousDigest || p.PreviousDigest.IsZero() {
				w.Errorf("change %+v", p)
			}
		}
		lines = append(lines, line.String())
	}
	return lines
}

func (w *world) wantSkillEvents(want ...string) {
	w.Helper()
	if got := w.skillEvents(); !slices.Equal(got, want) {
		w.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Changes of skills are found without a notification: when the list is no longer fresh, and earlier when
// the server announces another change. No file is read.
func TestSkills(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.TTL = 60_000
		docs.OfferSkills()
		docs.SetQuietly("file:///a.md", "one")
		docs.SetQuietly("skill://review/checks.md", "vet")
		docs.SetList(catalog.Skills, sessiontest.Skill("review", "Reviews", map[string]string{"checks.md": "vet", "old.md": "x"}))
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.Include = []string{"file:///**", "skill://**"} }))
		w.pass(5 * time.Second)
		if st, _ := w.tracker.Snapshot().Server("docs"); st.State != event.Ready || len(st.Lists[catalog.Skills]) != 1 {
			w.Fatalf("%s", w.log())
		}
		w.wantSkillEvents() // the baseline
		before := docs.Count("skills/list")

		docs.SetList(catalog.Skills, sessiontest.Skill("review", "Reviews all", map[string]string{"checks.md": "vet, test", "new.md": "x"}), sessiontest.Skill("plan", "Plans", nil))
		w.pass(80 * time.Second)
		cause := " " + string(event.CausePoll)
		want := []string{"skill.added skill://plan/SKILL.md" + cause,
			"skill.changed " + reviewURI + cause + " frontmatter +skill://review/new.md -skill://review/old.md ~skill://review/SKILL.md ~skill://review/checks.md"}
		w.wantSkillEvents(want...)
		if n := docs.Count("skills/list") - before; n > 4 {
			w.Errorf("listed %d times in 80s", n)
		}

		docs.SetList(catalog.Skills, sessiontest.Skill("plan", "Plans", nil))
		docs.Set("file:///b.md", "two") // announces the list of resources
		w.pass(4 * time.Second)
		want = append(want, "skill.removed "+reviewURI+" "+string(event.CauseNotify))
		w.wantSkillEvents(want...)

		docs.SetList(catalog.Skills, sessiontest.Skill("plan", "Plans", map[string]string{"more.md": "x"}))
		docs.Set("file:///b.md", "three") // has nothing to do with skills
		w.pass(time.Second)
		w.wantSkillEvents(want...)
		docs.Set("skill://plan/draft.md", "x") // a new resource
		w.pass(4 * time.Second)
		want = append(want, "skill.changed skill://plan/SKILL.md "+string(event.CauseNotify)+" +skill://plan/more.md")
		w.wantSkillEvents(want...)
		docs.SetList(catalog.Skills, sessiontest.Skill("plan", "Plans", nil))
		docs.Set("skill://plan/draft.md", "y") // an update in its directory
		w.pass(4 * time.Second)
		want = append(want, "skill.changed skill://plan/SKILL.md "+string(event.CauseNotify)+" -skill://plan/more.md")
		w.wantSkillEvents(want...)
		for _, m := range docs.Wire() {
			if m.Method == "resources/read" && strings.Contains(string(m.Params), "SKILL.md") {
				w.Errorf("a file of a skill that is not a listed resource was read: %s", m.Params)
			}
		}
	})
}

// A server that declares skills and does not list them, lists them without end, or lists garbage, is
// followed otherwise, and is not asked all the time; neither are other servers disturbed.
func TestBrokenSkills(t *testing.T) {
	for name, break_ := range map[string]func(*sessiontest.Fake){
		"not implemented": func(s *sessiontest.Fake) {
			s.Fail(sessiontest.Fault{Method: "skills/list", Code: -32601, Message: "no"})
		},
		"no answer": func(s *sessiontest.Fake) { s.Fail(sessiontest.Fault{Method: "skills/list", Silent: true}) },
		"garbage":   func(s *sessiontest.Fake) { s.SetList(catalog.Skills, map[string]any{"uri": "skill://x/SKILL.md"}) },
		"no time":   func(s *sessiontest.Fake) { s.TTL = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, docs *sessiontest.Fake) {
				docs.OfferSkills()
				break_(docs)
				docs.SetQuietly("file:///a.md", "one")
				other := sessiontest.New()
				w.Add("other", other)
				other.SetQuietly("file:///a.md", "one")
				w.start(sessiontest.Entry("docs", func(s *config.Server) { s.RequestTimeout = 2 * time.Second }), sessiontest.Entry("other"))
				w.pass(20 * time.Second)
				w.wantState("docs", event.Ready)
				w.wantState("other", event.Ready)
				docs.Set("file:///a.md", "two")
				other.Set("file:///a.md", "two")
				w.pass(5 * time.Second)
				if n := len(w.published(event.TypeResourceUpdated)); n != 2 {
					w.Errorf("%d updates:\n%s", n, w.log())
				}
				if n := docs.Count("skills/list"); n > 12 {
					w.Errorf("listed %d times in 25s", n)
				}
				w.wantSkillEvents()
			})
		})
	}
}

// A server of which only the skills are followed is asked to announce changes of its resources.
func TestOnlySkills(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.OfferSkills()
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.TrackResources, s.TrackTools, s.TrackPrompts = false, false, false }))
		w.pass(2 * time.Second)
		w.wantState("docs", event.Ready)
		docs.SetList(catalog.Skills, sessiontest.Skill("review", "Reviews", nil))
		docs.NotifyListChanged(catalog.Resources)
		w.pass(2 * time.Second)
		w.wantSkillEvents("skill.added " + reviewURI + " " + string(event.CauseNotify))
		if n := docs.Count("resources/list") + docs.Count("resources/read"); n > 0 {
			w.Errorf("%d requests about resources", n)
		}
	})
}

// With trackSkills false, skills are not listed.
func TestSkillsAreNotTracked(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.OfferSkills()
		docs.SetList(catalog.Skills, sessiontest.Skill("review", "Reviews", nil))
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.TrackSkills = false }))
		w.pass(10 * time.Minute)
		if n := docs.Count("skills/list"); n != 0 {
			w.Errorf("listed %d times", n)
		}
	})
}

// A client never receives a file that is not what the skill's entry says. An entry that is older than
// the content is not a mismatch.
func TestSkillMismatch(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.OfferSkills()
		docs.SetQuietly(reviewURI, sessiontest.SkillMain("review", "Reviews"))
		docs.SetQuietly("skill://review/a.md", "good")
		docs.SetList(catalog.Skills, sessiontest.Skill("review", "Reviews", map[string]string{"a.md": "good"}))
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.Include = []string{"file:///**"} }))
		w.pass(5 * time.Second)
		client := w.tracker.Client("docs")
		if r, err := client.ReadResource(w.Context(), "skill://review/a.md"); err != nil || r.Size != 4 {
			w.Errorf("%+v, %v", r, err)
		}
		docs.SetQuietly("skill://review/a.md", "newer")
		docs.SetList(catalog.Skills, sessiontest.Skill("review", "Reviews", map[string]string{"a.md": "newer"}))
		if r, err := client.ReadResource(w.Context(), "skill://review/a.md"); err != nil || r.Size != 5 {
			w.Errorf("%+v, %v", r, err)
		}
		if n := len(w.published(event.TypeSkillMismatch)); n != 0 {
			w.Errorf("%d mismatches", n)
		}
		docs.SetQuietly("skill://review/a.md", "EVIL!")
		r, err := client.ReadResource(w.Context(), "skill://review/a.md")
		if _, ok := errors.AsType[*skill.Mismatch](err); !ok || r.Size != 0 {
			w.Errorf("%+v, %v", r, err)
		}
		if c, ok := client.Cache().Resource("skill://review/a.md"); ok && c.Size == 5 && strings.Contains(string(c.Raw()), "EVIL") {
			w.Errorf("the content is cached: %s", c.Raw())
		}
		w.pass(time.Second)
		found := w.published(event.TypeSkillMismatch)
		if len(found) != 1 || found[0].ResourceURI != "skill://review/a.md" || !strings.Contains(found[0].Payload.(event.SkillMismatch).Reason, "digest") {
			w.Errorf("%v", found)
		}
	})
}

// What the client of a proxy reads is verified likewise, and the texts that match are handed over.
func TestSkillFilesOfProxies(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		var read []string
		w.opts.SkillFile = func(server string, d catalog.Digest, text string) {
			if d != catalog.Digest(sha256.Sum256([]byte(text))) {
				w.Errorf("%v is not the digest of %q", d, text)
			}
			read = append(read, server+" "+text)
		}
		docs.OfferSkills()
		docs.SetList(catalog.Skills, sessiontest.Skill("review", "Reviews", map[string]string{"a.md": "good"}))
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.Include = []string{"file:///**"} }))
		w.pass(5 * time.Second)
		check := func(uri, member, content string) error {
			return w.tracker.CheckSkillFile(w.Context(), "docs", uri, fmt.Appendf(nil, `{"contents":[{"uri":%q,%q:%q}]}`, uri, member, content))
		}
		if err := check("skill://review/a.md", "text", "good"); err != nil {
			w.Error(err)
		}
		if err := check("skill://review/a.md", "blob", "Z29vZA=="); err != nil {
			w.Error(err)
		}
		if err := check("file:///elsewhere.md", "text", "anything"); err != nil {
			w.Error(err)
		}
		docs.SetList(catalog.Skills, sessiontest.Skill("review", "Reviews", map[string]string{"a.md": "newer"}))
		if err := check("skill://review/a.md", "text", "newer"); err != nil {
			w.Errorf("the entry was older than the file: %v", err)
		}
		for uri, content := range map[string]string{"skill://review/a.md": "EVIL!", "skill://review/unlisted.md": "x"} {
			if _, ok := errors.AsType[*skill.Mismatch](check(uri, "text", content)); !ok {
				w.Errorf("%s is accepted", uri)
			}
		}
		w.SetDown("docs", errors.New("down"))
		w.pass(time.Second)
		if err := check("skill://review/a.md", "text", "good"); err != nil { // as last listed
			w.Errorf("without a session: %v", err)
		}
		if err := check("skill://review/a.md", "text", "EVIL!"); err == nil {
			w.Error("a file that differs is accepted without a session")
		}
		w.pass(time.Second)
		if found := w.published(event.TypeSkillMismatch); len(found) != 3 {
			w.Errorf("%v", found)
		}
		if want := []string{"docs good", "docs newer", "docs good"}; !slices.Equal(read, want) {
			w.Errorf("read %q, want %q", read, want)
		}
	})
}
