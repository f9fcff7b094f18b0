package tracker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/skill"
)

// Bounds for the time after which skills are listed again, whatever their server's ttlMs says.
const (
	minSkillsTTL = 5 * time.Second
	maxSkillsTTL = time.Hour
)

// skillSchedule decides when the skills of a session are listed again. Servers do not announce changes
// of skills, so they are listed when they are no longer fresh (ttlMs), and when the server announces
// that something else changed.
type skillSchedule struct {
	next time.Time // zero while no listing is planned: there are no skills, or a sync is to list them
}

func (s *skillSchedule) due(now time.Time) bool { return !s.next.IsZero() && !now.Before(s.next) }

func (f *sessionFollower) listSkills(cause event.Cause) {
	f.skills.next = time.Time{}
	f.syncs.pending.list(f.scope().kindsOf(catalog.Skills), cause)
}

// skillsListed plans the next listing after a sync that listed skills. Without a ttlMs, the poll
// interval applies. A server that declares the extension and does not implement it is asked again only
// by the resyncs.
func (f *sessionFollower) skillsListed(r syncResult, now time.Time) {
	err := r.listErrs[catalog.Skills]
	if isUnsupported(err) {
		f.skills.next = time.Time{}
		f.w.warnOnce("skills", "the server declares skills and does not list them", err)
		return
	}
	if _, ok := r.lists[catalog.Skills]; !ok && err == nil {
		return
	}
	every := f.w.srv.PollInterval
	if r.skills.TTL > 0 {
		every = min(max(r.skills.TTL, minSkillsTTL), maxSkillsTTL)
	}
	f.skills.next = now.Add(backoff.Spread(every))
	if r.skills.Left > 0 {
		f.w.warnOnce("invalid skills", session.SkillsLeftOut, nil,
			"skills", r.skills.Left, "reason", strings.Join(r.skills.Invalid, "; "))
	}
}

// concernSkills reports whether one of the updated resources is in the directory of a listed skill.
func (f *sessionFollower) concernSkills(updated map[string]session.Signal) bool {
	for uri := range updated {
		if session.SkillIn(f.w.list(catalog.Skills), uri) != nil {
			return true
		}
	}
	return false
}

// publishSkills publishes an event for every skill in the delta.
func (w *worker) publishSkills(old, list catalog.List, delta catalog.Delta, cause event.Cause) {
	each := func(keys []string, payload func(was, is catalog.Item) event.Payload) {
		for _, key := range keys {
			was, _ := old.Get(key)
			is, _ := list.Get(key)
			w.t.store.commit(event.Event{ServerID: w.id, ResourceURI: key, Cause: cause, Payload: payload(was, is)}, nil)
		}
	}
	each(delta.Added, func(_, is catalog.Item) event.Payload {
		about, _ := describeSkill(is)
		return event.SkillAdded{Skill: about}
	})
	each(delta.Removed, func(was, _ catalog.Item) event.Payload {
		about, _ := describeSkill(was)
		return event.SkillRemoved{Skill: about}
	})
	each(delta.Changed, skillChanged)
}

// describeSkill returns the entry of an item, and what events say about it. If the item was stored
// without its definition, only the digest is known, and the entry is nil.
func describeSkill(it catalog.Item) (event.Skill, *skill.Entry) {
	about := event.Skill{Digest: it.Digest}
	e, err := skill.Parse(it.Raw)
	if err != nil {
		return about, nil
	}
	about.Name, about.Dynamic, about.Files, about.Size = e.Name, e.Dynamic(), len(e.Files), e.Size()
	return about, &e
}

// skillChanged returns the event for two versions of a skill.
func skillChanged(was, is catalog.Item) event.Payload {
	about, now := describeSkill(is)
	out := event.SkillChanged{Skill: about, PreviousDigest: was.Digest}
	_, before := describeSkill(was)
	if before == nil || now == nil {
		return out
	}
	out.Frontmatter = !sameJSON(before.Frontmatter, now.Frontmatter)
	if before.Dynamic() || now.Dynamic() {
		return out
	}
	d := skill.Diff(before.Files, now.Files)
	room := event.MaxSkillFiles
	out.More = max(0, len(d.Added)+len(d.Removed)+len(d.Changed)-room)
	for _, c := range d.Changed[:min(len(d.Changed), room)] {
		out.Changed = append(out.Changed, event.SkillFile{URI: c.URI, Digest: c.Digest, Size: c.Size, PreviousDigest: c.PreviousDigest, PreviousSize: &c.PreviousSize})
	}
	room -= len(out.Changed)
	for _, f := range d.Added[:min(len(d.Added), room)] {
		out.Added = append(out.Added, event.SkillFile{URI: f.URI, Digest: f.Digest, Size: f.Size})
	}
	room -= len(out.Added)
	for _, f := range d.Removed[:min(len(d.Removed), room)] {
		out.Removed = append(out.Removed, event.SkillFile{URI: f.URI, Digest: f.Digest, Size: f.Size})
	}
	return out
}

// sameJSON reports whether two JSON values are equal, apart from the order of keys and white space.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := catalog.Fingerprint(a)
	y, errY := catalog.Fingerprint(b)
	return errX == nil && errY == nil && x == y
}

// readSkill reads a resource. If it is a file of a tracked skill, the content is verified against the
// skill's entry; see checkSkill.
func (c *connection) readSkill(ctx context.Context, s *session.Session, uri string) (content *session.Content, err error) {
	e := session.SkillIn(c.t.store.list(c.server, catalog.Skills), uri)
	if e == nil {
		return s.Read(ctx, uri)
	}
	e, err = c.checkSkill(ctx, s, e, uri, func(e *skill.Entry) error {
		content, err = s.ReadSkillFile(ctx, e, uri)
		return err
	})
	if err != nil {
		return nil, err
	}
	if text, ok := content.Text(); ok {
		c.skillRead(e, uri, text)
	}
	return content, nil
}

// CheckSkillFile verifies the complete result of a resources/read request of a proxy's client, if that is a
// file of a skill that the server lists. A file that differs from the skill's entry is published, and
// the error is a [*skill.Mismatch]. Any other result is accepted.
func (t *Tracker) CheckSkillFile(ctx context.Context, server, uri string, result json.RawMessage) error {
	e := session.SkillIn(t.store.list(server, catalog.Skills), uri)
	if e == nil {
		return nil
	}
	c, err := t.live(server)
	if err != nil {
		c = &connection{t: t, server: server} // the proxy's client may have a session of its own
	}
	var text *string
	e, err = c.checkSkill(ctx, c.s, e, uri, func(e *skill.Entry) error {
		text, err = session.VerifySkillFile(e, uri, result)
		return err
	})
	if err == nil && text != nil {
		c.skillRead(e, uri, *text)
	}
	return err
}

// checkSkill calls check, which verifies a file, with the entry of its skill. If the file differs, the
// entry may be older than the file, so the server is asked for it, unless s is nil, and check is called once
// more. A file that still differs is published. It returns the entry that was used last.
func (c *connection) checkSkill(ctx context.Context, s *session.Session, e *skill.Entry, uri string, check func(*skill.Entry) error) (*skill.Entry, error) {
	err := check(e)
	if _, differs := errors.AsType[*skill.Mismatch](err); differs && s != nil {
		if now, failed := s.GetSkill(ctx, e.URI); failed == nil && now.Digest() != e.Digest() {
			e = &now
			err = check(e)
		}
	}
	if bad, differs := errors.AsType[*skill.Mismatch](err); differs {
		c.t.store.publish(event.Event{ServerID: c.server, ResourceURI: uri, Payload: event.SkillMismatch{Skill: e.URI, Reason: bad.Reason}})
	}
	return e, err
}

// skillRead passes on the verified text of a file, unless the skill is dynamic.
func (c *connection) skillRead(e *skill.Entry, uri, text string) {
	if f, listed := e.File(uri); listed && c.t.opts.SkillFile != nil {
		c.t.opts.SkillFile(c.server, f.Digest, text)
	}
}
