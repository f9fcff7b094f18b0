package lock

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Drift is one difference between what was approved and what is offered.
type Drift struct {
	Section  Section
	Key      string
	Old      Item     // the approved item; the zero Item if a new one was added
	New      Item     // the item that is offered; the zero Item if the old one was removed
	Variants []string // in which it was observed, sorted
	Kept     []string // observed variants that still offer the old item, sorted
	Classes  []string // ids, sorted; at least one
	Rejected bool     // the user rejected this change
	Twin     string   // the name that the name of an added tool or prompt looks like; empty if there is none
}

// Added reports whether the item is new.
func (d Drift) Added() bool { return d.Old.Hash == "" }

// Removed reports whether the item is no longer offered.
func (d Drift) Removed() bool { return d.New.Hash == "" && d.New.Problem == "" }

// Compare returns what drifted of a server, sorted by section, key and hash. s may be nil if nothing
// was approved. The same observations give the same result, in whatever order. For the rules see
// Variants in the package documentation.
func Compare(s *Server, observations ...Observation) []Drift {
	if s == nil {
		s = &Server{}
	}
	type change struct{ key, old, new, problem string }
	var drifts []Drift
	for _, section := range sections() {
		approved := byKey(s.Items[section])
		found := map[change]*Drift{}
		for _, o := range observations {
			items, listed := o.Items[section]
			if !listed {
				continue
			}
			offered := byKey(items)
			for _, key := range slices.Sorted(maps.Keys(allKeys(approved, offered))) {
				for _, d := range s.drift(o.Variant, approved[key], offered[key]) {
					id := change{key, d.Old.id(), d.New.id(), d.New.Problem}
					if found[id] == nil {
						d.Section, d.Key = section, key
						found[id] = &d
					}
					found[id].Variants = joined(found[id].Variants, o.Variant)
				}
			}
		}
		start := len(drifts)
		for _, d := range found {
			for _, o := range observations {
				if !d.Added() && slices.ContainsFunc(o.Items[section], func(it Item) bool { return it.Key == d.Key && it.id() == d.Old.id() }) {
					d.Kept = joined(d.Kept, o.Variant)
				}
			}
			d.classify()
			d.Rejected = slices.Contains(s.Rejected, Rejection{section, d.Key, d.New.Hash}) && d.New.Problem == ""
			drifts = append(drifts, *d)
		}
		slices.SortFunc(drifts[start:], func(a, b Drift) int {
			return cmp.Or(strings.Compare(a.Key, b.Key), compareItems(a.Old, b.Old), compareItems(a.New, b.New), strings.Compare(a.New.Problem, b.New.Problem))
		})
		if section == SectionTools || section == SectionPrompts {
			markTwins(approved, drifts[start:])
		}
	}
	return drifts
}

// drift compares the items with one key in one variant.
func (s *Server) drift(variant string, approved, offered []Item) []Drift {
	var unknown, gone []Item // offered but not approved; approved but not offered
	for _, it := range offered {
		if it.Problem != "" || !contains(approved, it) {
			unknown = append(unknown, it)
		}
	}
	for _, it := range approved {
		if s.expects(it, variant) && !contains(offered, it) {
			gone = append(gone, it)
		}
	}
	if len(unknown) > 0 && len(gone) == 0 && len(offered) == len(unknown) {
		gone = approved // in this variant it was not known; another variant has it
	}
	var drifts []Drift
	for i, it := range unknown {
		d := Drift{New: it}
		if i < len(gone) {
			d.Old = gone[i]
		}
		drifts = append(drifts, d)
	}
	if len(offered) == 0 {
		for _, it := range gone {
			drifts = append(drifts, Drift{Old: it})
		}
	}
	return drifts
}

// expects reports whether a variant must offer an approved item.
func (s *Server) expects(it Item, variant string) bool {
	covered := len(s.Variants) == 0 || slices.Contains(s.Variants, variant)
	return covered && (it.Variants == nil || slices.Contains(it.Variants, variant))
}

// classify sets the classes of a drift.
func (d *Drift) classify() {
	d.Classes = Classify(d.Section, d.Old.compared(), d.New.compared())
	if len(d.Classes) == 0 {
		d.Classes = []string{classOther} // the rules follow RFC 8785, which drops digits
	}
}

// CompareLocks returns what differs from lock a to lock b, by server id. A server without differences
// is absent. If the exclusions of the locks differ, the exclusions of a apply. Settings that became weaker
// are one drift of [SectionPolicy], the last one of a server.
func CompareLocks(a, b *Lock) map[string][]Drift {
	all := map[string][]Drift{}
	for id := range allKeys(a.Servers, b.Servers) {
		was, is := a.Servers[id], b.Servers[id]
		drifts := Compare(was, observe(a.Hashing, was, is)...)
		if was == nil {
			was = &Server{}
		}
		if is != nil {
			drifts = append(drifts, was.Weakened(is.Policy)...)
		}
		if len(drifts) > 0 {
			all[id] = drifts
		}
	}
	return all
}

// Weakened compares the weaker settings of a config with the settings in the lock. It returns one drift of
// [SectionPolicy] if a setting is weaker than what the lock allows, and none otherwise.
func (s *Server) Weakened(settings Policy) []Drift {
	if len(settings.weakerThan(s.Policy)) == 0 {
		return nil
	}
	d := Drift{Section: SectionPolicy, Old: s.Policy.item(), New: settings.item(), Classes: []string{classPolicy}}
	d.Rejected = slices.Contains(s.Rejected, d.rejection())
	return []Drift{d}
}

// observe returns what a server that offers exactly what is in its lock would be observed to offer,
// with the hashes and in all sections of another lock. to is nil if the server offers nothing.
func observe(h Hashing, from, to *Server) []Observation {
	offered := &Server{Items: map[Section][]Item{}}
	if to != nil {
		maps.Copy(offered.Items, to.Items)
		offered.Variants = to.Variants
	}
	if from != nil {
		for section := range from.Items {
			if offered.Items[section] == nil {
				offered.Items[section] = []Item{}
			}
		}
		if to == nil {
			offered.Variants = from.Variants
		}
	}
	variants := offered.Variants
	for _, items := range offered.Items {
		for _, it := range items {
			variants = joined(variants, it.Variants...)
		}
	}
	if len(variants) == 0 {
		variants = []string{""}
	}
	var observations []Observation
	for _, variant := range variants {
		o := Observation{variant, map[Section][]Item{}}
		for section, items := range offered.Items {
			o.Items[section] = []Item{}
			for _, it := range items {
				if it.Variants == nil || slices.Contains(it.Variants, variant) {
					o.Items[section] = append(o.Items[section], h.Item(section, it.Definition))
				}
			}
		}
		observations = append(observations, o)
	}
	return observations
}

// Take approves drift. If classes are given, by id, it takes only drift whose classes are all among them.
// left has what it did not take: drift of other classes, definitions with a problem, and drift whose old
// item is not approved any more.
func (s *Server) Take(drifts []Drift, classes ...string) (left []Drift) {
	before := maps.Clone(s.Items) // several drifts may have the same old item
	if s.Items == nil {
		s.Items = map[Section][]Item{}
	}
	for _, d := range drifts {
		foreign := len(classes) > 0 && slices.ContainsFunc(d.Classes, func(id string) bool { return !slices.Contains(classes, id) })
		_, current := slices.BinarySearchFunc(before[d.Section], d.Old, compareItems)
		var settings Policy
		if d.Section == SectionPolicy {
			current = d.Old.Hash == s.Policy.item().Hash && settings.UnmarshalJSON(d.New.Definition) == nil
		}
		if foreign || d.New.Problem != "" || !current && (!d.Added() || d.Section == SectionPolicy) {
			left = append(left, d)
			continue
		}
		switch {
		case d.Section == SectionPolicy:
			s.Policy = settings
		case d.Removed():
			s.withdraw(d)
		default:
			s.withdraw(d)
			s.approve(d)
		}
		s.Rejected = slices.DeleteFunc(s.Rejected, func(r Rejection) bool { return r == d.rejection() })
	}
	return left
}

// withdraw removes an approved item from the variants of a drift, except those that still offer it.
func (s *Server) withdraw(d Drift) {
	items := slices.Clone(s.Items[d.Section])
	old, known := slices.BinarySearchFunc(items, d.Old, compareItems)
	if !known {
		return
	}
	variants := items[old].Variants
	if variants == nil {
		variants = s.Variants
	}
	variants = slices.DeleteFunc(slices.Clone(variants), func(v string) bool { return slices.Contains(d.Variants, v) })
	variants = joined(variants, d.Kept...)
	if len(variants) > 0 {
		items[old].Variants = s.normal(variants)
	} else {
		items = slices.Delete(items, old, old+1)
	}
	s.Items[d.Section] = items
}

// approve adds the new item of a drift, or adds variants to it.
func (s *Server) approve(d Drift) {
	it := d.New
	it.Key, it.Variants = d.Key, s.normal(d.Variants)
	items := slices.Clone(s.Items[d.Section])
	i, known := slices.BinarySearchFunc(items, it, compareItems)
	switch {
	case !known:
		items = slices.Insert(items, i, it)
	case items[i].Variants != nil:
		items[i].Variants = s.normal(joined(items[i].Variants, d.Variants...))
	}
	s.Items[d.Section] = items
}

// Reject records that the user rejected drift, so that Compare marks it. The approved items stay.
// Definitions with a problem are not recorded: they cannot be approved either.
func (s *Server) Reject(drifts []Drift) {
	for _, d := range drifts {
		if d.New.Problem == "" && !slices.Contains(s.Rejected, d.rejection()) {
			s.Rejected = append(s.Rejected, d.rejection())
		}
	}
	slices.SortFunc(s.Rejected, compareRejections)
}

// rejection returns the change of a drift.
func (d *Drift) rejection() Rejection { return Rejection{d.Section, d.Key, d.New.Hash} }

// byKey returns items by their keys, sorted by hash.
func byKey(items []Item) map[string][]Item {
	keys := map[string][]Item{}
	for _, it := range items {
		keys[it.Key] = append(keys[it.Key], it)
	}
	for _, same := range keys {
		slices.SortFunc(same, compareItems)
	}
	return keys
}

// allKeys returns the keys of two maps.
func allKeys[V any](a, b map[string]V) map[string]bool {
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	return keys
}

// contains reports whether items have a definition.
func contains(items []Item, it Item) bool {
	return slices.ContainsFunc(items, func(other Item) bool { return other.id() == it.id() })
}
