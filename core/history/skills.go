package history

import (
	"context"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/skill"
)

// maxNested limits in how many directories above a file its skill is searched.
const maxNested = 8

// SkillFile returns the versions of a file of a skill, oldest first, at most the newest: those that the
// stored entries of the skill list. It returns none if no stored entry of the innermost skill with a
// history lists the file. current returns the digest of the current entry of a skill; see
// [Definitions]. Only the newest [MaxClassified] entries are read.
//
// The text of a version is stored if somebody read that version of the file while its server was
// followed: files of skills are not read otherwise.
func (l Log) SkillFile(ctx context.Context, server, uri string, current func(Item) catalog.Digest, most int) ([]Version, error) {
	if l.Contents == nil {
		return nil, nil
	}
	var skills []Item
	for main := range skill.Mains(uri) {
		if skills = append(skills, Item{lock.SectionSkills, main}); len(skills) == maxNested {
			break
		}
	}
	if len(skills) == 0 {
		return nil, nil
	}
	events := journal.Decoded(l.Select(ctx, journal.Selection{ServerID: server, Own: true}))
	entries, err := Definitions(events, skills, current, MaxClassified)
	if err != nil {
		return nil, err
	}
	for _, it := range skills {
		versions, err := l.filesIn(ctx, entries[it], server, uri)
		if err != nil {
			return nil, err
		}
		if len(versions) == 0 {
			continue
		}
		versions = versions[max(0, len(versions)-most):]
		stored, err := l.Contents.Stored(ctx, Digests(versions))
		if err != nil {
			return nil, err
		}
		for i := range versions {
			versions[i].Text = stored[versions[i].Digest]
		}
		return versions, nil
	}
	return nil, nil
}

// filesIn returns the versions of a file that the versions of a skill list. It skips versions of the
// skill whose entry is not stored.
func (l Log) filesIn(ctx context.Context, entries []Version, server, uri string) (versions []Version, err error) {
	for _, v := range entries {
		next := Version{ServerID: server, URI: uri, ID: v.ID, Timestamp: v.Timestamp, Cause: v.Cause}
		if !v.Removed {
			definition, ok, err := l.Contents.Get(ctx, v.Digest)
			if err != nil {
				return nil, err
			}
			e, failed := skill.Parse([]byte(definition))
			if !ok || failed != nil {
				continue
			}
			if f, listed := e.File(uri); listed {
				next.Digest, next.Size = f.Digest, &f.Size
			}
		}
		next.Removed = next.Digest.IsZero()
		if n := len(versions); n == 0 && next.Removed || n > 0 && versions[n-1].Digest == next.Digest {
			continue
		}
		versions = append(versions, next)
	}
	return versions, nil
}
