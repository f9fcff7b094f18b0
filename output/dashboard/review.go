package dashboard

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	// maxChanges limits the changes in one response, and in one decision.
	maxChanges = 200
	// maxChangeBytes limits the size of the changes in one response, as JSON.
	maxChangeBytes = 1 << 20
	// maxDefinition limits the old and the new definition of a change whose difference is shown, together.
	maxDefinition = 256 << 10
	// maxDecision limits the body of a decision.
	maxDecision = 32 << 10
)

// Review has what the user has not approved.
type Review struct {
	// Guard follows the lock file.
	Guard *guard.Guard
	// Changes returns what differs from the lock, by server.
	Changes func() map[string][]guard.Change
}

// unreviewed is the response of /api/lock.
type unreviewed struct {
	Lock bool `json:"lock"` // there is a lock file
	// Changes has the most severe changes first, grouped by server, and rejected ones last.
	Changes []reviewed `json:"changes"`
	More    int        `json:"more,omitempty"` // number of further changes
}

// reviewed is one change with everything that the user needs to decide.
type reviewed struct {
	lock.Change
	Kind   string      `json:"kind"` // new, removed or changed
	Action lock.Action `json:"action"`
	Reason string      `json:"reason,omitempty"` // why the whole server differs
	// Fingerprint identifies the change in a decision; empty if it cannot be decided here.
	Fingerprint string `json:"fingerprint,omitempty"`
	Diff        string `json:"diff,omitempty"` // see [lock.Drift.Diff]
	// Advice is what to do about a change that cannot be approved here.
	Advice string `json:"advice,omitempty"`
}

func newReviewed(server string, c guard.Change) reviewed {
	out := reviewed{Kind: "changed", Action: c.Action}
	if c.Section == "" {
		out.Change, out.Reason = lock.Change{ServerID: server, Severity: lock.Error, Classes: []string{}}, c.Reason
		return out
	}
	out.Change = lock.NewChange(server, c.Drift)
	out.Kind = out.Change.Kind()
	if out.Problem != "" {
		return out
	}
	out.Fingerprint = out.Change.Fingerprint()
	out.Diff = diffOf(c.Drift)
	out.Advice = refused(out.Change, out.Diff)
	return out
}

// refused says why a change cannot be approved here, and what to do instead; empty if it can.
func refused(c lock.Change, diff string) string {
	review := "; run mcptrack review " + printable.Shell(c.ServerID)
	unshown := c.Drift.Unshown()
	switch {
	case unshown != "":
		return unshown + "; mcptrack review --approve " + printable.Shell(c.ServerID+":"+c.Item) + " approves it"
	case diff != "":
		return ""
	case tooLarge(c.Drift):
		return "its definition is too large to be shown here" + review
	}
	return "the definitions differ only in their form" + review
}

func tooLarge(d lock.Drift) bool { return len(d.Old.Definition)+len(d.New.Definition) > maxDefinition }

// diffOf returns the difference of a change, or an empty string if it is too large to be shown.
func diffOf(d lock.Drift) string {
	if tooLarge(d) {
		return ""
	}
	return d.Diff()
}

// open returns the changes of all servers, or of one server or one of its items, in the order in which
// they are shown.
func (v *Review) open(server, item string) []lockChange {
	var all []lockChange
	worst := map[string]int{} // rank of the most severe change, by server
	for id, changes := range v.Changes() {
		for _, c := range changes {
			name := lock.Name(c.Section, c.Key)
			if server != "" && id != server || item != "" && item != name && item != printable.Line(name, 0) {
				continue
			}
			l := lockChange{id, name, rankOf(c), c}
			if r, known := worst[id]; !known || l.rank < r {
				worst[id] = l.rank
			}
			all = append(all, l)
		}
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(worst[a.server]-worst[b.server], strings.Compare(a.server, b.server), a.rank-b.rank, strings.Compare(a.name, b.name), strings.Compare(a.Drift.New.Hash, b.Drift.New.Hash), strings.Compare(a.Drift.Old.Hash, b.Drift.Old.Hash)) < 0
	})
	return all
}

// lockChange is a change with what it is sorted by.
type lockChange struct {
	server, name string
	rank         int
	guard.Change
}

// rankOf returns the position of a change: the most severe first, rejected ones last.
func rankOf(c guard.Change) int {
	rank := lock.Note.Rank()
	for _, id := range c.Drift.Classes {
		class, _ := lock.FindClass(id)
		rank = min(rank, class.Severity.Rank())
	}
	switch {
	case c.Section == "":
		return -1
	case c.Drift.Rejected:
		return rank + lock.Note.Rank() + 1
	}
	return rank
}

// undecided returns the number of changes that the user has neither approved nor rejected, or nil if there
// is no lock file.
func (v *Review) undecided() *int {
	if v == nil || !v.Guard.Exists() {
		return nil
	}
	n := 0
	for _, changes := range v.Changes() {
		for _, c := range changes {
			if !c.Drift.Rejected {
				n++
			}
		}
	}
	return &n
}

// review returns what is not approved, of all servers, or with ?server= and ?item= of one.
func (d *Dashboard) review(r *http.Request) (any, error) {
	if v := d.opts.Review; v == nil || !v.Guard.Exists() {
		return unreviewed{Changes: []reviewed{}}, nil
	}
	return d.scan(d.compared)(r) // comparing definitions takes as long as reading the log
}

// compared is review if there is a lock file.
func (d *Dashboard) compared(_ context.Context, r *http.Request) (any, error) {
	out, size := unreviewed{Lock: true, Changes: []reviewed{}}, 0
	all := d.opts.Review.open(r.URL.Query().Get("server"), r.URL.Query().Get("item"))
	for _, c := range all {
		if len(out.Changes) == maxChanges || size >= maxChangeBytes {
			break
		}
		shown := newReviewed(c.server, c.Change)
		data, err := json.Marshal(shown)
		if err != nil || len(data) > maxChangeBytes {
			continue
		}
		size += len(data)
		out.Changes = append(out.Changes, shown)
	}
	out.More = len(all) - len(out.Changes)
	return out, nil
}

// decision is the body of a request that approves or rejects changes of one server.
type decision struct {
	ServerID string `json:"serverId"`
	// Changes has the fingerprints of the changes, as they were shown: what the server has changed
	// since has another one.
	Changes []string `json:"changes"`
}

// decided is the response to a decision.
type decided struct {
	Result string   `json:"result"` // approved or rejected
	Items  []string `json:"items"`
	Undo   string   `json:"undo"` // undoes the decision; see [Dashboard.undo]
}

// maxUndos limits the decisions that can be undone.
const maxUndos = 16

// undos has the last decisions, oldest first. It is safe for concurrent use.
type undos struct {
	mu  sync.Mutex
	all []undoable
}

type undoable struct {
	id      string // a secret of whoever decided
	decided decided
	undo    lock.Undo
}

func (u *undos) add(one undoable) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = append(u.all[max(0, len(u.all)+1-maxUndos):], one)
}

// take removes a decision and returns it.
func (u *undos) take(id string) (one undoable, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = slices.DeleteFunc(u.all, func(known undoable) bool {
		if known.id == id {
			one, ok = known, true
		}
		return known.id == id
	})
	return one, ok
}

// undo makes the lock have of the items of a decision what it had before.
func (d *Dashboard) undo(r *http.Request) (any, error) {
	var in struct {
		Undo string `json:"undo"`
	}
	if err := parse(r, &in); err != nil || in.Undo == "" {
		return nil, &refusal{http.StatusBadRequest, `expected {"undo":"ID"}`}
	}
	one, known := d.undos.take(in.Undo)
	if !known {
		return nil, &refusal{http.StatusConflict, "it was undone already, or is too old"}
	}
	ok, err := one.undo.Apply(r.Context(), d.opts.Review.Guard.Path())
	switch {
	case err != nil:
		d.undos.add(one)
		return nil, errors.New("the lock was not changed: " + printable.Reason(err, 500))
	case !ok:
		return nil, &refusal{http.StatusConflict, "the lock has changed since"}
	}
	one.decided.Result, one.decided.Undo = "undone", ""
	d.opts.Logger.Info("a decision was undone in the dashboard", "items", one.decided.Items)
	return one.decided, nil
}

// parse decodes the JSON object in the body of a request.
func parse(r *http.Request, into any) error {
	dec := json.NewDecoder(io.LimitReader(r.Body, maxDecision))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("there is more")
	}
	return nil
}

func parseDecision(r *http.Request) (in decision, err error) {
	if err := parse(r, &in); err != nil || in.ServerID == "" || len(in.Changes) == 0 {
		return in, &refusal{http.StatusBadRequest, `expected {"serverId":"ID","changes":["FINGERPRINT"]}`}
	}
	if len(in.Changes) > maxChanges {
		return in, &refusal{http.StatusBadRequest, fmt.Sprintf("at most %d changes can be decided in one request", maxChanges)}
	}
	return in, nil
}

// decide returns the function that approves or rejects changes. Either all changes of a request are found as
// they were shown, or nothing is changed.
func (d *Dashboard) decide(approve bool) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		in, err := parseDecision(r)
		if err != nil {
			return nil, err
		}
		out := decided{Result: "rejected"}
		if approve {
			out.Result = "approved"
		}
		var undo lock.Undo
		out.Items, undo, err = d.opts.Review.decide(r.Context(), in, approve)
		if _, refused := errors.AsType[*refusal](err); err != nil && !refused {
			err = errors.New("the lock was not changed: " + printable.Reason(err, 500))
		}
		if err == nil {
			out.Undo = rand.Text()
			d.undos.add(undoable{out.Undo, out, undo})
			d.opts.Logger.Info("changes were "+out.Result+" in the dashboard", "server", in.ServerID, "items", out.Items)
		}
		return out, err
	}
}

// decide carries out a decision and returns the names of its items.
func (v *Review) decide(ctx context.Context, in decision, approve bool) (items []string, undo lock.Undo, err error) {
	if !v.Guard.Exists() {
		return nil, nil, &refusal{http.StatusNotFound, "there is no lock; mcptrack lock writes what the servers offer now into it"}
	}
	known := map[string]lock.Change{}
	for _, c := range v.Changes()[in.ServerID] {
		if c.Section != "" && c.Drift.New.Problem == "" {
			change := lock.NewChange(in.ServerID, c.Drift)
			known[change.Fingerprint()] = change
		}
	}
	wanted := map[string]lock.Change{}
	for _, fingerprint := range in.Changes {
		c, ok := known[fingerprint]
		if !ok {
			return nil, nil, &refusal{http.StatusConflict, "nothing was decided: a change of " + printable.Line(in.ServerID, 128) + " has changed again since it was shown, or is no longer open; look at it again"}
		}
		if approve {
			if why := refused(c, diffOf(c.Drift)); why != "" {
				return nil, nil, &refusal{http.StatusUnprocessableEntity, "nothing was decided: " + printable.Line(c.Item, 200) + ": " + why}
			}
		}
		wanted[fingerprint] = c
	}
	chosen := slices.Collect(maps.Values(wanted))
	sort.Slice(chosen, func(i, j int) bool { return chosen[i].Item < chosen[j].Item })
	left, undo, err := lock.Decide(ctx, v.Guard.Path(), approve, chosen)
	if err != nil {
		return nil, nil, err
	}
	if len(left) > 0 {
		return nil, nil, &refusal{http.StatusConflict, fmt.Sprintf("%d of %d not decided, such as %s: the lock was changed meanwhile; look at it again", len(left), len(chosen), printable.Line(left[0].Item, 200))}
	}
	for _, c := range chosen {
		items = append(items, c.Item)
	}
	return items, undo, nil
}
