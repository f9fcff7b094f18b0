package lock

import (
	"cmp"
	"encoding/json"
	"slices"
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
	// Variants are what the lock covers, sorted; see Variants in the package documentation. If there are
	// none, it covers every variant.
	Variants []string
	// Policy has the settings of the config for this server that are weaker than the defaults, so that
	// a review sees them. A weaker setting has an effect only if it is here and in the config.
	Policy Policy
	// Items has the approved items of each section, sorted by key and hash. A section that was never
	// listed is absent, which has the same meaning as an empty one.
	Items    map[Section][]Item
	Rejected []Rejection // sorted
}

// VariantCatalog is the variant of an HTTP catalog, which offers the same tools to all clients.
const VariantCatalog = "catalog"

// Item is one approved definition, or one that a server offers.
type Item struct {
	Key        string          // the name or URI; empty in sections that have at most one item
	Hash       string          // 64 hexadecimal digits; empty if there is a problem
	Definition json.RawMessage // as the server sent it; read from a file, spaces and escapes may differ
	Variants   []string        // in which it is offered, sorted; nil for all. Observations do not use it
	Problem    string          // why the definition has no hash; a printable line

	rest  json.RawMessage // the definition without excluded members; nil if it has none
	exact string          // a hash of the numbers with digits that Hash does not cover; empty if there are none
}

// id identifies the definition. Two definitions with the same hash differ if a digit of a number does
// that RFC 8785 drops.
func (it *Item) id() string { return it.Hash + it.exact }

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

// Observation is what a server offers in one variant.
type Observation struct {
	Variant string
	// Items has the items of each section that was listed, in any order. A section that was not listed
	// is absent; a section that was listed and is empty has an empty list.
	Items map[Section][]Item
}

// sections returns all sections in the order in which they are shown.
func sections() []Section {
	return []Section{SectionLaunch, SectionCapabilities, SectionInstructions, SectionTools, SectionPrompts, SectionSkills, SectionTemplates, SectionResources, SectionContents}
}

// Merge returns a server with the union of several observations. refused has the items with a
// problem, which cannot be approved.
func Merge(observations ...Observation) (s *Server, refused []Item) {
	s = &Server{Items: map[Section][]Item{}}
	for _, o := range observations {
		s.Variants = joined(s.Variants, o.Variant)
	}
	for _, o := range observations {
		for section, items := range o.Items {
			if s.Items[section] == nil {
				s.Items[section] = []Item{}
			}
			for _, it := range items {
				if it.Problem != "" {
					refused = append(refused, it)
				}
			}
		}
	}
	for _, section := range sections() {
		found := map[[2]string]*Item{}
		for _, o := range observations {
			for _, it := range o.Items[section] {
				if it.Problem != "" {
					continue
				}
				id := [2]string{it.Key, it.id()}
				if found[id] == nil {
					it.Variants = nil
					found[id] = &it
				}
				found[id].Variants = joined(found[id].Variants, o.Variant)
			}
		}
		for _, it := range found {
			it.Variants = s.normal(it.Variants)
			s.Items[section] = append(s.Items[section], *it)
		}
		slices.SortFunc(s.Items[section], compareItems)
	}
	slices.SortFunc(refused, compareItems)
	return s, refused
}

// normal returns nil for variants that include all variants of the server.
func (s *Server) normal(variants []string) []string {
	if len(s.Variants) == 0 {
		return variants
	}
	for _, v := range s.Variants {
		if !slices.Contains(variants, v) {
			return variants
		}
	}
	return nil
}

// joined returns sorted names with more names.
func joined(names []string, more ...string) []string {
	names = slices.Concat(names, more)
	slices.Sort(names)
	return slices.Compact(names)
}

func compareItems(a, b Item) int {
	return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Hash, b.Hash), strings.Compare(a.exact, b.exact))
}

func compareRejections(a, b Rejection) int {
	return cmp.Or(slices.Index(sections(), a.Section)-slices.Index(sections(), b.Section), strings.Compare(a.Key, b.Key), strings.Compare(a.Hash, b.Hash))
}
