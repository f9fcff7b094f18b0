package lock

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sort"
)

// Change is a drift of a server as it is shown to the user. Its JSON is part of the output of commands
// and of the API of serve-sse.
type Change struct {
	ServerID string   `json:"serverId"`
	Item     string   `json:"item"`  // such as tool/draw; empty for the server itself
	Class    string   `json:"class"` // the most severe one
	ID       string   `json:"id"`    // of Class
	Severity Severity `json:"severity"`
	Classes  []string `json:"classes"`           // names, the most severe first
	Was      string   `json:"was,omitempty"`     // "sha256:" and the hash of the approved definition
	Now      string   `json:"now,omitempty"`     // "sha256:" and the hash of the offered definition
	Reasons  []Reason `json:"reasons,omitempty"` // why a text is suspicious
	Problem  string   `json:"problem,omitempty"` // why the definition cannot be approved
	Rejected bool     `json:"rejected,omitempty"`

	Drift Drift `json:"-"` // the zero Drift for a server that is not in the lock
}

// NewChange returns the change of one item.
func NewChange(server string, d Drift) Change {
	classes := bySeverity(d.Classes)
	c := Change{ServerID: server, Item: d.Name(), Class: classes[0].Name, ID: classes[0].ID, Severity: classes[0].Severity,
		Problem: d.New.Problem, Rejected: d.Rejected, Drift: d}
	for _, class := range classes {
		c.Classes = append(c.Classes, class.Name)
	}
	if d.Old.Hash != "" {
		c.Was = "sha256:" + d.Old.Hash
	}
	if d.New.Hash != "" {
		c.Now = "sha256:" + d.New.Hash
	}
	c.Reasons = slices.Compact(d.Reasons()) // several words of one sentence
	return c
}

// NotLocked returns the change of a server that the lock does not contain.
func NotLocked(server string) Change {
	c, _ := FindClass("added")
	return Change{ServerID: server, Class: c.Name, ID: c.ID, Severity: c.Severity, Classes: []string{c.Name}}
}

// bySeverity returns classes, the most severe first.
func bySeverity(ids []string) []Class {
	var classes []Class
	for _, id := range ids {
		c, _ := FindClass(id)
		classes = append(classes, c)
	}
	sort.SliceStable(classes, func(i, j int) bool { return classes[i].Severity.Rank() < classes[j].Severity.Rank() })
	return classes
}

// Kind says in a word what happened to the item: new, removed or changed.
func (c Change) Kind() string {
	switch {
	case c.Item == "" || c.Drift.Added():
		return "new"
	case c.Drift.Removed():
		return "removed"
	}
	return "changed"
}

// Notes says in a clause each what else matters about the change. The clauses may contain hidden
// characters.
func (c Change) Notes() (notes []string) {
	if c.Problem != "" {
		notes = append(notes, "cannot be approved: "+c.Problem)
	}
	if c.Rejected {
		notes = append(notes, "rejected")
	}
	if unshown := c.Drift.Unshown(); unshown != "" {
		notes = append(notes, unshown)
	}
	if path := c.edited(); path != "" {
		notes = append(notes, "only the content of "+path+`; if you develop this server, "lock": {"launch": "allow"} in its config entry and mcptrack lock --update serve each version`)
	}
	return notes
}

// edited returns the path of the script or program of a launch if nothing but its content has changed, or an
// empty string.
func (c Change) edited() string {
	var was, is map[string]any
	if c.Drift.Section != SectionLaunch || json.Unmarshal(c.Drift.Old.Definition, &was) != nil || json.Unmarshal(c.Drift.New.Definition, &is) != nil {
		return ""
	}
	before, _ := was["file"].(map[string]any)
	now, _ := is["file"].(map[string]any)
	path, _ := now["path"].(string)
	delete(before, "sha256")
	delete(now, "sha256")
	if !reflect.DeepEqual(was, is) {
		return ""
	}
	return path
}

// Fingerprint identifies what a user decides about if the change is shown: the item, the approved
// definition, and each byte of the new definition. It is a SHA-256 in base64url, of 43 characters.
func (c Change) Fingerprint() string {
	d := c.Drift
	data, _ := json.Marshal([]any{c.ServerID, d.Section, []byte(d.Key), d.Old.Hash, d.New.Hash, []byte(d.New.Definition), d.New.Problem}) // cannot fail
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// errNothing makes Update leave a file as it is.
var errNothing = errors.New("nothing was decided")

// Decide approves or rejects changes in a lock file; see [Update]. left has the changes that could not
// be approved: the lock does not have the server, the change has a problem, or another definition of the
// item has been approved since. undo undoes the decision.
func Decide(ctx context.Context, path string, approve bool, changes []Change) (left []Change, undo Undo, err error) {
	err = Update(ctx, path, func(l *Lock) error {
		left, undo = nil, nil
		chosen := map[string][]Drift{}
		for _, c := range changes {
			s := l.Servers[c.ServerID]
			known := func(it Item) bool { return it.Key == c.Drift.Key }
			if s == nil || c.Item == "" || approve && c.Drift.Added() && slices.ContainsFunc(s.Items[c.Drift.Section], known) {
				left = append(left, c)
				continue
			}
			chosen[c.ServerID] = append(chosen[c.ServerID], c.Drift)
			undo = append(undo, undoing{server: c.ServerID, section: c.Drift.Section, key: c.Drift.Key, was: s.entry(c.Drift.Section, c.Drift.Key)})
		}
		for id, drifts := range chosen {
			if !approve {
				l.Servers[id].Reject(drifts)
				continue
			}
			for _, d := range l.Servers[id].Take(drifts) {
				left = append(left, NewChange(id, d))
			}
		}
		if len(left) == len(changes) {
			return errNothing
		}
		for i, u := range undo {
			undo[i].is = l.Servers[u.server].entry(u.section, u.key)
		}
		return nil
	})
	if errors.Is(err, errNothing) {
		err = nil
	}
	return left, undo, err
}

// Undo is what a lock had of the items of a decision before it, and after it.
type Undo []undoing

type undoing struct {
	server  string
	section Section
	key     string
	was, is entry
}

// entry is what a lock has of one item: what is approved, and what is rejected.
type entry struct {
	items    []Item
	rejected []Rejection
	policy   Policy // in SectionPolicy
}

func (s *Server) entry(section Section, key string) (e entry) {
	e.items = slices.DeleteFunc(slices.Clone(s.Items[section]), func(it Item) bool { return it.Key != key })
	e.rejected = slices.DeleteFunc(slices.Clone(s.Rejected), func(r Rejection) bool { return r.Section != section || r.Key != key })
	if section == SectionPolicy {
		e.policy = s.Policy
	}
	return e
}

// Apply undoes the decision in a lock file; see [Update]. ok is false if something has been decided about one of its
// items since: then the file stays as it is.
func (u Undo) Apply(ctx context.Context, path string) (ok bool, err error) {
	err = Update(ctx, path, func(l *Lock) error {
		ok = !slices.ContainsFunc(u, func(u undoing) bool {
			s := l.Servers[u.server]
			if s == nil {
				return true
			}
			now := s.entry(u.section, u.key)
			same := slices.EqualFunc(now.items, u.is.items, func(a, b Item) bool { return compareItems(a, b) == 0 })
			return !same || !slices.Equal(now.rejected, u.is.rejected) || !maps.Equal(now.policy, u.is.policy)
		})
		if !ok {
			return errNothing
		}
		for _, u := range u {
			s := l.Servers[u.server]
			if u.section == SectionPolicy {
				s.Policy = u.was.policy
			} else {
				others := slices.DeleteFunc(slices.Clone(s.Items[u.section]), func(it Item) bool { return it.Key == u.key })
				s.Items[u.section] = sortedItems(append(others, u.was.items...))
				if u.was.items == nil && len(others) == 0 { // the lock did not have the section
					delete(s.Items, u.section)
				}
			}
			others := slices.DeleteFunc(slices.Clone(s.Rejected), func(r Rejection) bool { return r.Section == u.section && r.Key == u.key })
			s.Rejected = sortedRejections(append(others, u.was.rejected...))
		}
		return nil
	})
	if errors.Is(err, errNothing) {
		err = nil
	}
	return ok, err
}
