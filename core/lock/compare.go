package lock

import (
	"maps"
	"slices"
)

// Drift is one difference between what was approved and what is offered.
type Drift struct {
	Section  Section
	Key      string
	Old      Item     // the approved item; the zero Item if a new one was added
	New      Item     // the item that is offered; the zero Item if the old one was removed
	Classes  []string // ids, sorted; at least one
	Rejected bool     // the user rejected this change
	Twin     string   // the name that the name of an added tool or prompt looks like; empty if there is none
}

// Added reports whether the item is new.
func (d Drift) Added() bool { return d.Old.Hash == "" }

// Removed reports whether the item is no longer offered.
func (d Drift) Removed() bool { return d.New.Hash == "" && d.New.Problem == "" }

// Compare returns what drifted of a server in the sections that were listed, sorted by section and key. s may
// be nil if nothing was approved. An item that is approved in several definitions may be offered in any of them.
func Compare(s *Server, o Observation) []Drift {
	if s == nil {
		s = &Server{}
	}
	var drifts []Drift
	for _, section := range sections() {
		items, listed := o[section]
		if !listed {
			continue
		}
		approved, offered, start := byKey(s.Items[section]), byKey(items), len(drifts)
		for _, key := range slices.Sorted(maps.Keys(allKeys(approved, offered))) {
			for _, d := range differences(approved[key], offered[key]) {
				d.Section, d.Key = section, key
				if d.Classes = Classify(section, d.Old.compared(), d.New.compared()); len(d.Classes) == 0 {
					d.Classes = []string{classOther}
				}
				d.Rejected = slices.Contains(s.Rejected, d.rejection()) && d.New.Problem == ""
				drifts = append(drifts, d)
			}
		}
		if section == SectionTools || section == SectionPrompts {
			markTwins(approved, drifts[start:])
		}
	}
	return drifts
}

// differences compares the items with one key.
func differences(approved, offered []Item) (drifts []Drift) {
	var gone []Item // approved but not offered
	for _, it := range approved {
		if !contains(offered, it) {
			gone = append(gone, it)
		}
	}
	if len(offered) == 0 {
		for _, it := range gone {
			drifts = append(drifts, Drift{Old: it})
		}
	}
	for _, it := range offered {
		if it.Problem == "" && contains(approved, it) {
			continue
		}
		d := Drift{New: it}
		if i := len(drifts); i < len(gone) {
			d.Old = gone[i]
		}
		drifts = append(drifts, d)
	}
	return drifts
}

// CompareLocks returns what differs from lock a to lock b, by server id. A server without differences
// is absent. If the exclusions of the locks differ, the exclusions of a apply. Settings that became weaker
// are one drift of [SectionPolicy], the last one of a server.
func CompareLocks(a, b *Lock) map[string][]Drift {
	all := map[string][]Drift{}
	for id := range allKeys(a.Servers, b.Servers) {
		was, is := a.Servers[id], b.Servers[id]
		drifts := Compare(was, observe(a.Hashing, was, is))
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
func observe(h Hashing, from, to *Server) Observation {
	o := Observation{}
	if from != nil {
		for section := range from.Items {
			o[section] = nil
		}
	}
	if to != nil {
		for section, items := range to.Items {
			o[section] = nil
			for _, it := range items {
				o[section] = append(o[section], h.Item(section, it.Definition))
			}
		}
	}
	return o
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

// withdraw removes the old item of a drift.
func (s *Server) withdraw(d Drift) {
	if old, known := slices.BinarySearchFunc(s.Items[d.Section], d.Old, compareItems); known {
		s.Items[d.Section] = slices.Delete(slices.Clone(s.Items[d.Section]), old, old+1)
	}
}

// approve adds the new item of a drift.
func (s *Server) approve(d Drift) {
	it := d.New
	it.Key = d.Key
	if i, known := slices.BinarySearchFunc(s.Items[d.Section], it, compareItems); !known {
		s.Items[d.Section] = slices.Insert(slices.Clone(s.Items[d.Section]), i, it)
	}
}

// Reject records that the user rejected drift, so that Compare marks it. The approved items stay.
// Definitions with a problem are not recorded: they cannot be approved either.
func (s *Server) Reject(drifts []Drift) {
	for _, d := range drifts {
		if d.New.Problem == "" && !slices.Contains(s.Rejected, d.rejection()) {
			s.Rejected = append(s.Rejected, d.rejection())
		}
	}
	s.Rejected = sortedRejections(s.Rejected)
}

// rejection returns the change of a drift.
func (d *Drift) rejection() Rejection { return Rejection{d.Section, d.Key, d.New.Hash} }

// byKey returns items by their keys, without duplicates.
func byKey(items []Item) map[string][]Item {
	keys := map[string][]Item{}
	for _, it := range items {
		keys[it.Key] = append(keys[it.Key], it)
	}
	for key, same := range keys {
		keys[key] = unique(same)
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
	return slices.ContainsFunc(items, func(other Item) bool { return other.Hash == it.Hash })
}
