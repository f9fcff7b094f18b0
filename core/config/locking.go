package config

import (
	"fmt"

	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/lock"
)

// Locking describes what the lock file (see package lock) contains of a server, and what a gateway
// does about changes.
type Locking struct {
	// Lock is what to do about changes, for the classes whose default is not used.
	Lock lock.Policy
	// PinContent lists globs of the URIs of resources whose contents belong to the lock.
	PinContent []string
}

// lockPolicy reads the key "lock", an object of classes of changes and actions. References are not
// expanded: what is enforced must not depend on the machine.
func (e *entry) lockPolicy(spellings []string, s *Server) {
	f, ok := e.find(spellings...)
	if !ok {
		return
	}
	if f.value.Kind != tree.Object {
		e.invalid(f, "object of classes of changes and actions", `write {"wording": "hold"}`)
		return
	}
	settings := map[string]string{}
	for name, m := range firstMembers(f.value) {
		path := f.path.key(name)
		if m.Value.Kind != tree.String {
			e.errorAt(m.Value.Offset, path, CodeType, fmt.Sprintf(`%s has invalid "lock"; expected an action for each class`, e.label), "the actions are allow, audit, hold and block")
			continue
		}
		if _, err := lock.ParsePolicy(map[string]string{name: m.Value.Text}); err != nil {
			offset, hint := m.Value.Offset, ""
			if _, known := lock.FindClass(name); !known {
				offset = m.Offset
				hint = didYouMean(name, classNames(false))
			}
			e.errorAt(offset, path, CodeValue, fmt.Sprintf(`%s has invalid "lock": %v`, e.label, err), hint)
			continue
		}
		settings[name] = m.Value.Text
	}
	policy, err := lock.ParsePolicy(settings)
	if err != nil {
		e.errorAt(f.value.Offset, f.path, CodeDuplicateKey, fmt.Sprintf(`%s has invalid "lock": %v`, e.label, err), "keep one of them")
		return
	}
	if len(policy) > 0 {
		s.Lock = policy
	}
}

// classNames returns the names of all classes of changes that a policy may have; with ids, both names and ids.
func classNames(ids bool) (all []string) {
	for _, c := range lock.Classes() {
		if c.Default == "" {
			continue
		}
		all = append(all, c.Name)
		if ids {
			all = append(all, c.ID)
		}
	}
	return all
}

// lockSchema returns the schema of the key "lock".
func lockSchema() map[string]any {
	return map[string]any{
		"type":                 "object",
		"propertyNames":        map[string]any{"enum": classNames(true)},
		"additionalProperties": map[string]any{"enum": []lock.Action{lock.Allow, lock.Audit, lock.Hold, lock.Block}},
	}
}
