package history

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/lock"
)

// skillEntry returns the entry of the skill skill://DIR/SKILL.md, whose files contain the texts given
// as NAME=TEXT.
func skillEntry(dir string, files ...string) string {
	list := make([]map[string]any, 0, len(files))
	for _, f := range files {
		name, text, _ := strings.Cut(f, "=")
		list = append(list, map[string]any{"uri": "skill://" + dir + "/" + name, "digest": catalog.Digest(sha256.Sum256([]byte(text))).String(), "size": len(text)})
	}
	name := dir[strings.LastIndexByte(dir, '/')+1:]
	raw, err := json.Marshal(map[string]any{"uri": "skill://" + dir + "/SKILL.md", "frontmatter": map[string]string{"name": name, "description": "d"}, "resources": list})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// A file of a skill has the versions that the skill's entries list, whether or not its text was read.
func TestVersionsOfSkillFiles(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{KeepContent: 1 << 20})
	defer log.Close()
	const main = "skill://team/pdf/SKILL.md"
	at := time.Date(2026, 11, 24, 9, 30, 0, 0, time.UTC)
	n := 0
	add := func(p event.Payload) {
		t.Helper()
		if err := log.Append(&event.Event{ServerID: "docs", Timestamp: at.Add(time.Duration(n) * time.Minute), Payload: p}); err != nil {
			t.Fatal(err)
		}
		n++
	}
	var last catalog.Digest
	listed := func(keep bool, entry string) { // an empty entry removes the skill
		t.Helper()
		p := event.ListChanged{List: catalog.Skills}
		v := catalog.ItemVersion{Key: main, PreviousDigest: last}
		last = catalog.Digest{}
		if entry != "" {
			last = catalog.Digest{byte(n + 1)}
			if keep {
				log.Contents().Put(last, entry)
			}
		}
		v.Digest = last
		switch {
		case v.Digest.IsZero():
			p.Removed = []string{main}
		case v.PreviousDigest.IsZero():
			p.Added = []string{main}
		default:
			p.Changed = []string{main}
		}
		p.Versions = []catalog.ItemVersion{v}
		add(p)
	}
	add(event.SubscriptionActive{})
	listed(true, skillEntry("team/pdf", "SKILL.md=one"))
	listed(true, skillEntry("team/pdf", "SKILL.md=one", "a.md=x"))   // adds a.md
	listed(true, skillEntry("team/pdf", "SKILL.md=two", "a.md=x"))   // changes SKILL.md
	listed(false, skillEntry("team/pdf", "SKILL.md=two", "a.md=yy")) // its entry is not stored
	listed(true, skillEntry("team/pdf", "SKILL.md=two", "a.md=zzz")) // changes a.md
	listed(true, skillEntry("team/pdf", "SKILL.md=two"))             // removes a.md
	listed(true, "")
	text := catalog.Digest(sha256.Sum256([]byte("x")))
	log.Contents().Put(text, "x")

	stored := Log{log.Select, log.Contents()}
	for uri, want := range map[string][]string{
		main:                       {"09:31 3 false", "09:33 3 false", "09:37 removed"},
		"skill://team/pdf/a.md":    {"09:32 1 true", "09:35 3 false", "09:36 removed"},
		"skill://team/pdf/none.md": nil,
		"skill://other/SKILL.md":   nil,
		"file:///a.md":             nil,
		"":                         nil,
	} {
		versions, err := stored.SkillFile(t.Context(), "docs", uri, func(Item) catalog.Digest { return catalog.Digest{} }, 10)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range versions {
			if v.URI != uri || v.ServerID != "docs" || v.Item != "" || v.ID == "" {
				t.Errorf("%s: %+v", uri, v)
			}
			line := v.Timestamp.Format("15:04") + " removed"
			if !v.Removed {
				line = fmt.Sprintf("%s %d %t", v.Timestamp.Format("15:04"), *v.Size, v.Text)
			}
			got = append(got, line)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", uri, got, want)
		}
	}
	if versions, err := stored.SkillFile(t.Context(), "docs", "skill://team/pdf/a.md", func(Item) catalog.Digest { return catalog.Digest{} }, 1); err != nil || len(versions) != 1 || !versions[0].Removed {
		t.Errorf("the newest: %+v, %v", versions, err)
	}

	// A skill within another one's folder, known only from the stored list.
	inner := catalog.Digest{99}
	log.Contents().Put(inner, skillEntry("team/pdf/forms", "SKILL.md=inner"))
	current := func(it Item) catalog.Digest {
		if it == (Item{lock.SectionSkills, "skill://team/pdf/forms/SKILL.md"}) {
			return inner
		}
		return catalog.Digest{}
	}
	versions, err := stored.SkillFile(t.Context(), "docs", "skill://team/pdf/forms/SKILL.md", current, 10)
	if err != nil || len(versions) != 1 || versions[0].ID != "" || *versions[0].Size != 5 {
		t.Errorf("%+v, %v", versions, err)
	}
}
