package guard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/lock"
)

// Verdict is what may be served of a server. A nil Verdict serves everything.
type Verdict struct {
	review   string // tells the user to run the command that shows the changes
	policy   lock.Policy
	enforce  lock.Action
	approved *lock.Server // nil if the server is not in the lock
	hashing  lock.Hashing
	compared []lock.Section // what the server offers of them was known

	blocked string // why nothing is served; empty if something is
	held    map[id]held
	changes []Change
}

// id identifies an item of a server.
type id struct {
	section lock.Section
	key     string
}

// held is an item that must not be used.
type held struct {
	approved json.RawMessage // nil if the item was added
}

// Change is a change that the user has not approved.
type Change struct {
	// Section and Key are empty if the lock cannot be read or has no such server.
	Section lock.Section
	Key     string // as the server sent it
	Action  lock.Action
	Hidden  bool       // the item is not listed
	Reason  string     // for the user; contains nothing of the change
	Drift   lock.Drift // the zero Drift if Section is empty
}

// Changes returns what is not approved, sorted by section and key.
func (v *Verdict) Changes() []Change {
	if v == nil {
		return nil
	}
	return v.changes
}

// Compared reports whether a section of the server was compared with the lock, or there is no lock.
func (v *Verdict) Compared(section lock.Section) bool {
	return v == nil || slices.Contains(v.compared, section)
}

// Approves reports whether the lock has an item with this key and hash or, if the hash is empty, no
// item with this key. If the section is empty, it reports whether the lock has the server.
func (v *Verdict) Approves(section lock.Section, key, hash string) bool {
	if v == nil || v.approved == nil || section == "" {
		return v != nil && v.approved != nil
	}
	has := func(it lock.Item) bool { return it.Key == key && (hash == "" || it.Hash == hash) }
	return slices.ContainsFunc(v.approved.Items[section], has) == (hash != "")
}

// ApprovedHash returns the hash of the approved definition of an item, or an empty string if the lock has
// no such item. If it has several definitions, it returns the hash of one of them.
func (v *Verdict) ApprovedHash(section lock.Section, key string) string {
	if v == nil || v.approved == nil {
		return ""
	}
	items := v.approved.Items[section]
	if i := slices.IndexFunc(items, func(it lock.Item) bool { return it.Key == key }); i >= 0 {
		return items[i].Hash
	}
	return ""
}

// Knows reports whether the name of an item that the server no longer lists may be shown: the lock has
// the item, or items may be added without approval.
func (v *Verdict) Knows(section lock.Section, key string) bool {
	if v == nil || v.ApprovedHash(section, key) != "" {
		return true
	}
	added, _ := lock.FindClass("added")
	action := v.action(lock.Drift{Section: section, Key: key, Classes: []string{added.ID}})
	return action == lock.Allow || action == lock.Audit
}

// block lets nothing of the server be served, unless everything is served.
func (v *Verdict) block(why string) {
	action := lock.Block
	if v.enforce == lock.Audit {
		action = lock.Audit
	} else {
		v.blocked = why
	}
	v.changes = append(v.changes, Change{Action: action, Hidden: action == lock.Block, Reason: why})
}

// action returns what to do about a change.
func (v *Verdict) action(d lock.Drift) lock.Action {
	action := v.policy.Action(d)
	switch {
	case v.enforce == lock.Audit && (action == lock.Hold || action == lock.Block):
		return lock.Audit
	case action == lock.Hold && (v.enforce == lock.Block || d.Section == lock.SectionLaunch || d.Section == lock.SectionCapabilities):
		return lock.Block
	}
	return action
}

// judge applies the policy to a change.
func (v *Verdict) judge(d lock.Drift) {
	action := v.action(d)
	if action == lock.Allow {
		return
	}
	at := id{d.Section, d.Key}
	change := Change{Section: d.Section, Key: d.Key, Action: action, Drift: d}
	meanwhile := "it is served"
	switch action {
	case lock.Block:
		meanwhile = "nothing of the server is served"
		v.blocked = "the server has changed since it was approved; " + v.review
	case lock.Hold:
		meanwhile = "it is not served"
		was, again := v.held[at]
		if !again || was.approved == nil {
			v.held[at] = held{d.Old.Definition}
		}
		change.Hidden = v.held[at].approved == nil
	}
	change.Reason = fmt.Sprintf("change of class %s; %s; %s", classNames(d.Classes), meanwhile, v.review)
	v.changes = append(v.changes, change)
}

func classNames(ids []string) string {
	var names []string
	for _, c := range lock.Classes() {
		if slices.Contains(ids, c.ID) {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, ", ")
}

// Enforced reports whether only what the lock has may be served.
func (v *Verdict) Enforced() bool { return v != nil && v.enforce != lock.Audit }

// Blocked returns why nothing of the server may be served, or nil if something may be.
func (v *Verdict) Blocked() error {
	if v == nil || v.blocked == "" {
		return nil
	}
	return &Refusal{v.blocked}
}

// Refusal means that something must not be used before the user has approved it.
type Refusal struct{ reason string }

func (r *Refusal) Error() string { return "not served: " + r.reason }

// Refuse returns why an item of a list must not be used, or nil if it may be.
func (v *Verdict) Refuse(k catalog.Kind, key string) error {
	if err := v.Blocked(); err != nil || v == nil {
		return err
	}
	if _, is := v.held[id{lock.Section(k), key}]; is {
		return &Refusal{"it differs from what was approved; " + v.review}
	}
	return nil
}

// RefuseStray returns why a resource must not be read that may be a file of a skill that is not approved.
func (v *Verdict) RefuseStray() error {
	return &Refusal{"no approved skill has a file with this URI; " + v.review}
}

// Hides reports whether an item must not be listed.
func (v *Verdict) Hides(k catalog.Kind, key string) bool {
	if v == nil {
		return false
	}
	h, is := v.held[id{lock.Section(k), key}]
	return v.blocked != "" || is && h.approved == nil
}

// Approved returns a list with the approved definitions of the items that are held. Items that are
// hidden stay in it; see [Verdict.Hides]. The order of list is kept, and list is returned itself if nothing
// of it is held.
func (v *Verdict) Approved(k catalog.Kind, list []catalog.Item) []catalog.Item {
	if v == nil || v.blocked != "" {
		return list
	}
	approved := map[string]json.RawMessage{}
	for at, h := range v.held {
		if at.section == lock.Section(k) && h.approved != nil {
			approved[at.key] = h.approved
		}
	}
	var out []catalog.Item
	for _, key := range slices.Sorted(maps.Keys(approved)) {
		it, err := catalog.NewItem(k, approved[key])
		if err != nil || it.Key != key {
			continue // cannot be, because the lock file was checked; the item stays and is refused
		}
		if out == nil {
			out = slices.Clone(list)
		}
		if i := slices.IndexFunc(out, func(o catalog.Item) bool { return o.Key == key }); i >= 0 {
			out[i] = it
		} else {
			out = append(out, it)
		}
	}
	switch {
	case out == nil:
		return list
	case len(out) > len(list) && sort.SliceIsSorted(list, func(i, j int) bool { return list[i].Key < list[j].Key }):
		sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	}
	return out
}

// Instructions returns the instructions to serve instead of the server's own.
func (v *Verdict) Instructions(text string) string {
	if v == nil {
		return text
	}
	if v.blocked != "" {
		return ""
	}
	if h, is := v.held[id{lock.SectionInstructions, ""}]; is {
		text = ""
		_ = json.Unmarshal(h.approved, &text) // there are none if they were added
	}
	return text
}

// Pinned returns the URIs of the contents that are in the lock.
func (v *Verdict) Pinned() (uris []string) {
	if v == nil || v.approved == nil {
		return nil
	}
	for _, it := range v.approved.Items[lock.SectionContents] {
		uris = append(uris, it.Key)
	}
	return uris
}

// Held returns the keys of the items of a list that must not be used, in no order.
func (v *Verdict) Held(k catalog.Kind) (keys []string) {
	if v == nil {
		return nil
	}
	for at := range v.held {
		if at.section == lock.Section(k) {
			keys = append(keys, at.key)
		}
	}
	return keys
}

// Contents returns why the result of resources/read for a URI must not be served, or nil if it may
// be. Only contents that are in the lock are compared.
func (v *Verdict) Contents(uri string, result json.RawMessage) error {
	pinned := map[string]bool{}
	for _, key := range v.Pinned() {
		pinned[key] = true
	}
	if len(pinned) == 0 {
		return nil
	}
	var read struct {
		Contents []struct {
			URI      string  `json:"uri"`
			MIMEType string  `json:"mimeType"`
			Text     *string `json:"text"`
			Blob     []byte  `json:"blob"`
		} `json:"contents"`
	}
	if err := jsonv2.Unmarshal(result, &read); err != nil && !pinned[uri] {
		return nil
	} else if err != nil && v.enforce != lock.Audit {
		return v.changedContent()
	}
	var contents []lock.Item
	add := func(uri, mimeType string, data []byte, text bool) {
		contents = append(contents, v.hashing.Item(lock.SectionContents, lock.Content(uri, mimeType, data, text)))
	}
	// The result for a pinned URI is one content, as for the lock: servers may write its URI in another
	// way, and a directory has several entries.
	var mimeType string
	var whole []byte
	text := true
	for _, c := range read.Contents {
		data := c.Blob
		if c.Text != nil {
			data = []byte(*c.Text)
		}
		mimeType, whole, text = cmp.Or(mimeType, c.MIMEType), append(whole, data...), text && c.Text != nil
		if c.URI == "" && pinned[uri] && v.enforce != lock.Audit {
			return v.changedContent() // some clients may find its URI in another member
		}
		if c.URI != uri && pinned[c.URI] {
			add(c.URI, c.MIMEType, data, c.Text != nil)
		}
	}
	if pinned[uri] {
		add(uri, mimeType, whole, text)
	}
	approved := &lock.Server{Items: map[lock.Section][]lock.Item{lock.SectionContents: v.approved.Items[lock.SectionContents]}, Rejected: v.approved.Rejected}
	for _, d := range lock.Compare(approved, lock.Observation{lock.SectionContents: contents}) {
		if action := v.action(d); !d.Removed() && (action == lock.Hold || action == lock.Block) {
			return v.changedContent()
		}
	}
	return nil
}

// HoldsContents reports whether there are contents in the lock that Contents refuses when they change.
func (v *Verdict) HoldsContents() bool {
	pinned := v.Pinned()
	if len(pinned) == 0 || v.enforce == lock.Audit {
		return false
	}
	old, changed := lock.Content("", "", nil, true), lock.Content("", "", []byte{0}, true)
	action := v.action(lock.Drift{Section: lock.SectionContents, Classes: lock.Classify(lock.SectionContents, old, changed)})
	return action == lock.Hold || action == lock.Block ||
		slices.ContainsFunc(v.approved.Rejected, func(r lock.Rejection) bool { return r.Section == lock.SectionContents })
}

func (v *Verdict) changedContent() error {
	return &Refusal{"its content differs from what was approved; " + v.review}
}
