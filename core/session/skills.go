package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/skill"
)

// Skills is the result of listing a server's skills.
type Skills struct {
	// List contains the valid entries. Their definitions are the JSON of [skill.Entry], with sorted files
	// and without unknown members.
	List catalog.List
	// TTL is how long the server wants the list to be considered fresh: the shortest of all pages. It
	// is 0 if the server does not say, and always for legacy servers that do not follow the newer rules
	// for results.
	TTL time.Duration
	// Invalid contains the first reasons why entries were left out, as printable lines, and Left is the
	// number of entries that were left out.
	Invalid []string
	Left    int

	refused map[string]error // why the skills with these URIs were left out; at most maxRefused
}

const (
	maxReasons = 10   // limits [Skills.Invalid]
	maxRefused = 1000 // limits the URIs of skills that were left out
)

// leaveOut records that an entry is not part of the list.
func (s *Skills) leaveOut(raw json.RawMessage, reason error) {
	if s.Left++; len(s.Invalid) < maxReasons {
		s.Invalid = append(s.Invalid, reason.Error())
	}
	var members map[string]json.RawMessage
	var uri string
	if json.Unmarshal(raw, &members) == nil && json.Unmarshal(members["uri"], &uri) == nil && len(uri) <= skill.MaxURI && len(s.refused) < maxRefused {
		if s.refused == nil {
			s.refused = map[string]error{}
		}
		s.refused[uri] = reason
	}
}

// ListSkills fetches all pages of skills/list within one request timeout and the same limits as
// [Session.List]. Entries that break the specification (see [skill.Parse]) and entries whose URI was
// already listed are left out, because hosts must not load them. If the server does not declare the
// extension, the list is empty and no request is sent. No file of a skill is read.
func (s *Session) ListSkills(ctx context.Context) (Skills, error) {
	var out Skills
	if !s.Info().Capabilities.Skills {
		return out, nil
	}
	var items []catalog.Item
	seen, first := map[string]bool{}, true
	err := s.pages(ctx, mcp.MethodListSkills, catalog.Skills.Field(), func(raw json.RawMessage, page []json.RawMessage) {
		if ttl := freshness(raw); first || ttl < out.TTL {
			out.TTL, first = ttl, false
		}
		for _, rawEntry := range page {
			it, err := skillItem(rawEntry)
			switch {
			case err != nil:
				out.leaveOut(rawEntry, err)
			case seen[it.Key]:
				out.leaveOut(nil, fmt.Errorf("skill %s: the uri is listed twice", it.Key))
			default:
				seen[it.Key] = true
				items = append(items, it)
			}
		}
	})
	if err != nil {
		return Skills{}, err
	}
	out.List = catalog.NewList(items)
	return out, nil
}

// listLogged is [Session.List], and logs why skills are left out.
func (s *Session) listLogged(ctx context.Context, k catalog.Kind) (catalog.List, error) {
	if k != catalog.Skills {
		return s.List(ctx, k)
	}
	skills, err := s.ListSkills(ctx)
	if skills.Left > 0 {
		s.opts.Logger.Warn(SkillsLeftOut, "skills", skills.Left, "reason", strings.Join(skills.Invalid, "; "))
	}
	return skills.List, err
}

// SkillsLeftOut is the message that is logged if entries of skills are left out.
const SkillsLeftOut = "the server lists skills that must not be loaded, because their entries are invalid"

// skillItem returns the item of an entry. Its definition is the entry's own encoding, so that the
// order of files and unknown members do not count as a change.
func skillItem(raw json.RawMessage) (catalog.Item, error) {
	e, err := skill.Parse(raw)
	if err != nil {
		return catalog.Item{}, err
	}
	if raw, err = e.MarshalJSON(); err != nil {
		return catalog.Item{}, err
	}
	return catalog.NewItem(catalog.Skills, raw)
}

// maxTTL is the longest time that a list is considered fresh.
const maxTTL = 24 * time.Hour

// freshness returns the ttlMs of a result, or 0 if it is missing, invalid or not positive.
func freshness(raw json.RawMessage) time.Duration {
	var result struct {
		TTL json.Number `json:"ttlMs"`
	}
	_ = json.Unmarshal(raw, &result) // another type means that there is none
	ms, err := result.TTL.Float64()
	if err != nil || !(ms > 0) {
		return 0
	}
	return time.Duration(min(ms, float64(maxTTL/time.Millisecond)) * float64(time.Millisecond))
}

// SkillOf returns the skill to which a URI belongs: the innermost listed skill whose directory contains
// it or, for a skill:// URI of a skill that is not listed, the one that the server has for the nearest
// directory. e is nil if the URI belongs to no skill. A file of a skill whose entry is invalid is an
// error; a skill:// URI that no skill has and that the server does not list as a resource, for example
// because it is spelled differently, is a [*skill.Mismatch].
func (s *Session) SkillOf(ctx context.Context, uri string) (e *skill.Entry, err error) {
	if !s.Info().Capabilities.Skills {
		return nil, nil
	}
	skills, err := s.ListSkills(ctx)
	if err != nil {
		return nil, err
	}
	if e := SkillIn(skills.List, uri); e != nil {
		return e, nil
	}
	for main := range skill.Mains(uri) {
		if reason := skills.refused[main]; reason != nil {
			return nil, fmt.Errorf("the skill must not be loaded: %w", reason)
		}
	}
	if scheme, _, _ := strings.Cut(uri, ":"); !strings.EqualFold(scheme, "skill") {
		return nil, nil
	}
	asked := 0
	for main := range skill.Mains(uri) {
		if asked++; asked > maxDirectories {
			break
		}
		got, err := s.GetSkill(ctx, main)
		switch {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return nil, err
		case got.Contains(uri):
			return &got, nil
		}
	}
	resources, err := s.List(ctx, catalog.Resources)
	if _, listed := resources.Get(uri); err != nil || listed {
		return nil, err
	}
	return nil, &skill.Mismatch{URI: uri, Reason: "no skill of the server has this file"}
}

// maxDirectories limits for how many directories of a URI a server is asked.
const maxDirectories = 8

// SkillIn returns the innermost skill of a list whose directory contains a URI, or nil if there is none.
func SkillIn(skills catalog.List, uri string) *skill.Entry {
	if len(skills) == 0 {
		return nil
	}
	for main := range skill.Mains(uri) {
		if it, ok := skills.Get(main); ok {
			if e, err := skill.Parse(it.Raw); err == nil && e.Contains(uri) {
				return &e
			}
		}
	}
	return nil
}

// ReadSkillFile reads one file of a skill and verifies it against the skill's entry. If the file is not
// what the entry says, or is not listed, the error is a [*skill.Mismatch], and nothing of the content is
// returned. A file that is not listed is not requested.
func (s *Session) ReadSkillFile(ctx context.Context, e *skill.Entry, uri string) (*Content, error) {
	if _, ok := e.File(uri); !ok && !e.Dynamic() {
		return nil, e.Verify(uri, nil)
	}
	content, err := s.Read(ctx, uri)
	if err != nil {
		return nil, err
	}
	if _, err := VerifySkillFile(e, uri, content.Raw); err != nil {
		return nil, err
	}
	return content, nil
}

// VerifySkillFile checks the result of a resources/read request for a file of a skill, as
// [Session.ReadSkillFile] does. It returns the text of the file, or nil for binary content.
func VerifySkillFile(e *skill.Entry, uri string, result json.RawMessage) (text *string, err error) {
	var r struct {
		Contents []struct {
			URI  string  `json:"uri"`
			Text *string `json:"text"`
			Blob *string `json:"blob"`
		} `json:"contents"`
	}
	if json.Unmarshal(result, &r) != nil || len(r.Contents) != 1 || (r.Contents[0].Text == nil) == (r.Contents[0].Blob == nil) || r.Contents[0].URI != uri {
		return nil, &skill.Mismatch{URI: uri, Reason: "the server did not answer with this one file"}
	}
	if text = r.Contents[0].Text; text != nil {
		return text, e.Verify(uri, []byte(*text))
	}
	return nil, e.Verify(uri, decodeBlob(*r.Contents[0].Blob))
}

// GetSkill returns the entry of one skill, which need not be listed. uri is the URI of its SKILL.md. It
// returns [ErrNotFound] if the server has no such skill.
func (s *Session) GetSkill(ctx context.Context, uri string) (skill.Entry, error) {
	raw, err := s.request(ctx, mcp.MethodGetSkill, map[string]any{"uri": uri})
	if err != nil {
		return skill.Entry{}, fmt.Errorf("%s %q: %w", mcp.MethodGetSkill, uri, missing(err))
	}
	var result struct {
		Skill json.RawMessage `json:"skill"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return skill.Entry{}, fmt.Errorf("%s %q: malformed result: %w", mcp.MethodGetSkill, uri, err)
	}
	e, err := skill.Parse(result.Skill)
	if err != nil {
		return skill.Entry{}, fmt.Errorf("%s %q: %w", mcp.MethodGetSkill, uri, err)
	}
	if e.URI != uri {
		return skill.Entry{}, fmt.Errorf("%s %q: the server answered with the skill %q", mcp.MethodGetSkill, uri, e.URI)
	}
	return e, nil
}
