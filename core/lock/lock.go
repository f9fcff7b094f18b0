package lock

import (
	"cmp"
	"encoding/json"
	"slices"
	"sort"
	"strings"
)

// Lock is the content of a lock file.
type Lock struct {
	Hashing Hashing
	Servers map[string]*Server // by server id
}

// New returns a lock without servers, with the default exclusions.
func New() *Lock { return &Lock{Hashing: DefaultHashing(), Servers: map[string]*Server{}} }

// Server is what was approved of one server.
type Server struct {
	// Policy has the settings of the config for this server that are weaker than the defaults, so that
	// a review sees them. A weaker setting has an effect only if it is here and in the config.
	Policy Policy
	// Items has the approved items of each section, sorted by key and hash. A section that was never
	// listed is absent, which has the same meaning as an empty one.
	Items    map[Section][]Item
	Rejected []Rejection // sorted
}

// Item is one approved definition, or one that a server offers.
type Item struct {
	Key        string          // the name or URI; empty in sections that have at most one item
	Hash       string          // 64 hexadecimal digits; empty if there is a problem
	Definition json.RawMessage // as the server sent it; read from a file, spaces and escapes may differ
	Problem    string          // why the definition has no hash; a printable line

	rest json.RawMessage // the definition without excluded members; nil if it has none
}

// compared returns the part of the definition that a change is about; nil for the zero Item.
func (it *Item) compared() json.RawMessage {
	if it.rest != nil {
		return it.rest
	}
	return it.Definition
}

// Rejection is a change that the user rejected.
type Rejection struct {
	Section Section `json:"section"`
	Key     string  `json:"key,omitzero"`
	Hash    string  `json:"hash,omitzero"` // of the rejected definition; empty if the removal was rejected
}

// Observation is what a server offers: the items of each section that was listed, in any order. A section
// that was not listed is absent.
type Observation map[Section][]Item

// sections returns all sections in the order in which they are shown.
func sections() []Section {
	return []Section{SectionLaunch, SectionCapabilities, SectionInstructions, SectionTools, SectionPrompts, SectionSkills, SectionTemplates, SectionResources, SectionContents}
}

// NewServer returns a server of which everything that was observed is approved, except items with a problem.
func NewServer(o Observation) *Server {
	s := &Server{Items: map[Section][]Item{}}
	for section, items := range o {
		items = slices.DeleteFunc(slices.Clone(items), func(it Item) bool { return it.Problem != "" })
		s.Items[section] = unique(items)
	}
	return s
}

// unique sorts items and removes all but one of those with the same key and hash. The result is not nil.
func unique(items []Item) []Item {
	return append([]Item{}, slices.CompactFunc(sortedItems(items), func(a, b Item) bool { return compareItems(a, b) == 0 })...)
}

func sortedItems(items []Item) []Item {
	all := slices.Clone(items)
	sort.Slice(all, func(i, j int) bool { return compareItems(all[i], all[j]) < 0 })
	return all
}

func compareItems(a, b Item) int {
	return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Hash, b.Hash), strings.Compare(a.Problem, b.Problem))
}

func sortedRejections(rejected []Rejection) []Rejection {
	all := slices.Clone(rejected)
	sort.Slice(all, func(i, j int) bool {
		return cmp.Or(slices.Index(sections(), all[i].Section)-slices.Index(sections(), all[j].Section), strings.Compare(all[i].Key, all[j].Key), strings.Compare(all[i].Hash, all[j].Hash)) < 0
	})
	return all
}
