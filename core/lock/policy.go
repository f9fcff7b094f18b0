package lock

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Policy is what a gateway does about changes of a server, by the id of the class. A class that is
// absent has the default of [Classes]. As JSON it is an object of class names and actions, such as
// {"wording":"allow"}.
type Policy map[string]Action

// ParsePolicy returns the policy for settings such as "wording": "allow". A class may be given by
// name or by id.
func ParsePolicy(settings map[string]string) (Policy, error) {
	p := Policy{}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		class, ok := FindClass(name)
		if !ok || class.Default == "" {
			problems = append(problems, fmt.Errorf("there is no class of changes \"%s\"; the classes are %s", printable.Line(name, 40), classNames()))
			continue
		}
		action := Action(settings[name])
		if !slices.Contains(actions(), action) {
			problems = append(problems, fmt.Errorf("%s: there is no action \"%s\"; the actions are allow, audit, hold and block", class.Name, printable.Line(settings[name], 40)))
			continue
		}
		if _, twice := p[class.ID]; twice {
			problems = append(problems, fmt.Errorf("%s is set twice, by name and by id", class.Name))
			continue
		}
		p[class.ID] = action
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return p, nil
}

// Action returns what to do about a drift: the strictest action of its classes. A rejected change and a
// definition with a problem are held at least, because the user said no and cannot say yes.
func (p Policy) Action(d Drift) Action {
	strictest := Allow
	if d.Rejected || d.New.Problem != "" {
		strictest = Hold
	}
	for _, c := range Classes() {
		if !slices.Contains(d.Classes, c.ID) {
			continue
		}
		action, ok := p[c.ID]
		if !ok {
			action = c.Default
		}
		if slices.Index(actions(), action) > slices.Index(actions(), strictest) {
			strictest = action
		}
	}
	return strictest
}

// Within returns the policy without what a lock does not allow: of each class the stricter action of the
// two policies, except that a lock cannot make a setting stricter that p does not have.
func (p Policy) Within(allowed Policy) Policy {
	within := maps.Clone(p)
	for id := range p.weakerThan(allowed) {
		delete(within, id)
		if action, ok := allowed[id]; ok {
			within[id] = action
		}
	}
	return within
}

// Weaker returns the settings that are weaker than the defaults; nil if none is.
func (p Policy) Weaker() Policy { return p.weakerThan(nil) }

// weakerThan returns the settings that are weaker than what another policy does; nil if none is.
func (p Policy) weakerThan(other Policy) Policy {
	var weaker Policy
	for _, c := range Classes() {
		than, ok := other[c.ID]
		if !ok {
			than = c.Default
		}
		if action, ok := p[c.ID]; ok && slices.Index(actions(), action) < slices.Index(actions(), than) {
			if weaker == nil {
				weaker = Policy{}
			}
			weaker[c.ID] = action
		}
	}
	return weaker
}

// item returns the policy as an item; the zero Item if it has no settings.
func (p Policy) item() Item {
	if len(p) == 0 {
		return Item{}
	}
	definition, _ := p.MarshalJSON() // Parse accepted it
	return Item{Hash: sum(definition), Definition: definition}
}

// MarshalJSON implements [json.Marshaler]. Members are sorted by the id of the class.
func (p Policy) MarshalJSON() ([]byte, error) {
	data := []byte{'{'}
	for _, id := range slices.Sorted(maps.Keys(p)) {
		c, ok := FindClass(id)
		if !ok {
			return nil, fmt.Errorf("there is no class of changes \"%s\"", printable.Line(id, 40))
		}
		if len(data) > 1 {
			data = append(data, ',')
		}
		action, err := json.Marshal(p[id])
		if err != nil {
			return nil, err
		}
		data = append(append(data, `"`+c.Name+`":`...), action...)
	}
	return append(data, '}'), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Policy) UnmarshalJSON(data []byte) error {
	var settings object[string]
	if err := jsonv2.Unmarshal(data, &settings); err != nil {
		return err
	}
	parsed, err := ParsePolicy(settings)
	*p = parsed
	return err
}

// FindClass returns the class with a name or an id.
func FindClass(nameOrID string) (Class, bool) {
	all := Classes()
	i := slices.IndexFunc(all, func(c Class) bool { return c.Name == nameOrID || c.ID == nameOrID })
	if i < 0 {
		return Class{}, false
	}
	return all[i], true
}

// actions returns all actions, from the weakest to the strictest.
func actions() []Action { return []Action{Allow, Audit, Hold, Block} }

func classNames() string {
	var names []string
	for _, c := range Classes() {
		if c.Default != "" {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, ", ")
}
