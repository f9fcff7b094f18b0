//go:build unix

package chaos

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/status"
)

// fact is the content of a resource (list is empty), or an item of a list.
type fact struct{ server, list, name string }

func (f fact) String() string { return strings.TrimSpace(f.list + " " + f.server + " " + f.name) }

// Versions of a fact are numbers that increase. These have a meaning of their own:
const (
	gone      = 0
	there     = -1 // it exists, and no event says its version
	announced = -2 // updated without a digest: another event must follow
)

// oracle knows every version of every resource and list item, and which is true now.
type oracle struct {
	mu       sync.Mutex
	serial   int64
	truth    map[fact]int64
	since    map[fact]time.Time // when an item was defined as it is
	versions map[string]int64   // by digest of the content, and by description of the item
}

func newOracle() *oracle {
	return &oracle{truth: map[fact]int64{}, since: map[fact]time.Time{}, versions: map[string]int64{}}
}

// next makes the next version of a fact. It is true from now on.
func (o *oracle) next(f fact) (text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.serial++
	text = fmt.Sprintf("version %d", o.serial)
	o.truth[f] = o.serial
	if f.list != "" {
		o.versions[text], o.since[f] = o.serial, time.Now()
		return text
	}
	o.versions[digest(f.name, text)] = o.serial
	if f.list = string(catalog.Resources); o.truth[f] == gone {
		o.truth[f] = o.serial
	}
	return text
}

func (o *oracle) remove(f fact) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.truth[f] = gone; f.list == "" {
		f.list = string(catalog.Resources)
		o.truth[f] = gone
	}
}

func (o *oracle) version(value string) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.versions[value]
}

// now returns what is true.
func (o *oracle) now() (truth map[fact]int64, since map[fact]time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.truth), maps.Clone(o.since)
}

// digest is the digest of a text. It repeats the definition: what is tested does not say what is right.
func digest(uri, text string) string {
	h := sha256.New()
	for _, field := range [][2]string{{"uri", uri}, {"mimeType", "text/plain"}, {"text", text}, {"rest", ""}} {
		h.Write([]byte(field[0]))
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(field[1]))))
		h.Write([]byte(field[1]))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// known is one thing that a tracker knows: the digest of a resource or the description of an item.
type known struct{ Server, List, Name, Value string }

// knowledge returns what a tracker knows.
func knowledge(snap *status.Snapshot) (all []known) {
	for _, st := range snap.Servers {
		for _, r := range st.Resources {
			if !r.Gone && !r.Digest.IsZero() {
				all = append(all, known{st.ID, "", r.URI, r.Digest.String()})
			}
		}
		for kind, list := range st.Lists {
			for _, it := range list {
				_, value, _ := strings.Cut(string(it.Raw), `"description":"`)
				value, _, _ = strings.Cut(value, `"`)
				all = append(all, known{st.ID, string(kind), it.Key, value})
			}
		}
	}
	return all
}

// unlike returns the facts about which what is known is not true.
func (o *oracle) unlike(who string, all []known) (wrong []string) {
	truth, _ := o.now()
	versions := map[fact]int64{}
	for _, k := range all {
		f := fact{k.Server, k.List, k.Name}
		if k.List == string(catalog.Resources) {
			versions[f] = truth[f] // it has no description
			if truth[f] == gone {
				versions[f] = there
			}
			continue
		}
		versions[f] = max(versions[f], o.version(k.Value))
	}
	for f, want := range truth {
		if got := versions[f]; got != want {
			wrong = append(wrong, fmt.Sprintf("%s knows version %d of %s, which has %d", who, got, f, want))
		}
	}
	return wrong
}

// view is what the events of a log say.
type view struct {
	*oracle
	last  map[fact]int64
	named map[fact]time.Time // when the last event that names an item was published
	began time.Time
}

// newView returns the view of somebody who knows all that is true now.
func newView(o *oracle) *view {
	v := &view{oracle: o, named: map[fact]time.Time{}, began: time.Now()}
	v.last, _ = o.now()
	return v
}

// take applies an event. It returns an error if the event is older than another, or repeats it.
func (v *view) take(e *event.Event) error {
	content := fact{server: e.ServerID, name: e.ResourceURI}
	was := v.last[content]
	switch p := e.Payload.(type) {
	case event.ListChanged:
		var again []string
		for i, names := range [][]string{p.Added, p.Removed, p.Changed} {
			for _, name := range names {
				f := fact{e.ServerID, string(p.List), name}
				was, seen := v.last[f]
				is := int64(there)
				if i == 1 {
					is = gone
				}
				if i < 2 && seen && (was == gone) == (is == gone) {
					again = append(again, name)
				}
				v.last[f], v.named[f] = is, e.Timestamp
			}
		}
		if len(again) > 0 {
			return fmt.Errorf("%s of %s repeats what was known of %q", e.Type(), e.ServerID, again)
		}
	case event.ResourceAdded:
		if was <= gone {
			v.last[content] = there
		}
	case event.ResourceRemoved:
		v.last[content] = gone
	case event.ResourceUpdated:
		if p.Digest.IsZero() {
			v.last[content] = announced
			return nil
		}
		is := v.version(p.Digest.String())
		v.last[content] = is
		switch {
		case is == 0:
			return fmt.Errorf("%s never had the digest %s", content, p.Digest)
		case is < was:
			return fmt.Errorf("%s: version %d after version %d", content, is, was)
		case is == was && e.Cause != event.CauseNotify && e.Cause != event.CauseTrailing:
			return fmt.Errorf("%s: version %d twice, the second time by %s", content, is, e.Cause)
		}
	}
	return nil
}

// wrong returns the facts that the last events do not tell. What only the addition of a resource
// says has its version in a tracker, which is compared as well.
func (v *view) wrong() (wrong []string) {
	truth, since := v.now()
	for f, want := range truth {
		got, seen := v.last[f]
		switch {
		case !seen && want == gone: // it came and went between two looks
		case f.list == "" && got == there && want != gone:
		case f.list == "" && got != want, (got == gone) != (want == gone):
			wrong = append(wrong, fmt.Sprintf("the last event says version %d of %s, which has %d", got, f, want))
		case f.list == "" || want == gone:
		case v.began.Before(since[f]) && v.named[f].Before(since[f].Truncate(time.Millisecond)):
			wrong = append(wrong, fmt.Sprintf("no event names %s since it was redefined", f))
		}
	}
	return wrong
}
