package lock

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// generator makes random schemas and values that fit together often enough.
type generator struct {
	*rand.Rand
	defs bool // schemas may refer to #/$defs/d
}

func pick[T any](g generator, values ...T) T { return values[g.IntN(len(values))] }

func (g generator) value(depth int) any {
	switch n := g.IntN(9); {
	case n == 0:
		return nil
	case n == 1:
		return g.IntN(2) == 0
	case n <= 3:
		return pick(g, -1.0, 0, 1, 1.5, 2, 3, 4)
	case n <= 5:
		return pick(g, "", "x", "y", "xy", "xyz")
	case n == 6 && depth > 0:
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.value(depth-1))
		}
		return list
	case depth > 0:
		object := map[string]any{}
		for range g.IntN(4) {
			object[pick(g, "a", "b", "c")] = g.value(depth - 1)
		}
		return object
	}
	return "x"
}

func (g generator) list(depth int) (schemas []any) {
	for range 1 + g.IntN(3) {
		schemas = append(schemas, g.schema(depth))
	}
	return schemas
}

func (g generator) schema(depth int) any {
	if g.IntN(20) == 0 {
		return g.IntN(2) == 0
	}
	s := map[string]any{}
	for range g.IntN(4) {
		g.keyword(s, depth)
	}
	return s
}

// keyword sets one keyword of a schema.
func (g generator) keyword(s map[string]any, depth int) {
	flat := []func(){
		func() {
			s["type"] = pick[any](g, "string", "integer", "number", "object", "array", []any{"string", "null"}, []any{"object", "number"})
		},
		func() { s["enum"] = pick(g, []any{"x"}, []any{"x", "y"}, []any{1.0, "x"}, []any{map[string]any{}}) },
		func() { s["const"] = pick[any](g, "x", 1.0) },
		func() { s[pick(g, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")] = pick(g, 0.0, 1, 2) },
		func() {
			s[pick(g, "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")] = pick(g, 0.0, 1, 2)
		},
		func() { s["multipleOf"] = pick(g, 0.5, 1, 2, 3) },
		func() { s["uniqueItems"] = g.IntN(2) == 0 },
		func() { s["pattern"] = pick(g, "x", "^y", "z$") },
		func() { s["required"] = pick(g, []any{}, []any{"a"}, []any{"a", "b"}, []any{"c"}) },
		func() {
			s["dependentRequired"] = pick(g, map[string]any{"a": []any{"b"}}, map[string]any{"a": []any{"b", "c"}})
		},
		func() { s["description"] = pick(g, "d", "e") },
	}
	nested := []func(){
		func() {
			properties := map[string]any{}
			for range g.IntN(3) {
				properties[pick(g, "a", "b", "c")] = g.schema(depth - 1)
			}
			s["properties"] = properties
		},
		func() {
			s[pick(g, "additionalProperties", "unevaluatedProperties", "items", "contains", "propertyNames", "not", "if", "then", "else")] = g.schema(depth - 1)
		},
		func() { s[pick(g, "anyOf", "allOf", "prefixItems")] = g.list(depth - 1) },
		func() { s["patternProperties"] = map[string]any{pick(g, "a", "b"): g.schema(depth - 1)} },
		func() { s["dependentSchemas"] = map[string]any{pick(g, "a", "b"): g.schema(depth - 1)} },
		func() {
			if g.defs {
				s["$ref"] = pick(g, "#/$defs/d", "#/$defs/d", "#/properties/a")
			}
		},
	}
	if depth > 0 && g.IntN(2) == 0 {
		nested[g.IntN(len(nested))]()
	} else {
		flat[g.IntN(len(flat))]()
	}
}

// change changes a random place in a schema.
func (g generator) change(s any, depth int) any {
	m, ok := s.(map[string]any)
	if !ok || g.IntN(15) == 0 {
		return g.schema(1)
	}
	m = maps.Clone(m)
	names := slices.Sorted(maps.Keys(m))
	if len(names) > 0 && g.IntN(4) > 0 {
		switch name := names[g.IntN(len(names))]; v := m[name].(type) {
		case map[string]any:
			if name != "properties" && name != "$defs" && name != "patternProperties" && name != "dependentSchemas" {
				m[name] = g.change(v, depth)
				return m
			}
			if keys := slices.Sorted(maps.Keys(v)); len(keys) > 0 && g.IntN(4) > 0 {
				v = maps.Clone(v)
				key := keys[g.IntN(len(keys))]
				v[key] = g.change(v[key], depth)
				m[name] = v
				return m
			}
		case []any:
			if name == "anyOf" || name == "allOf" || name == "prefixItems" {
				v = slices.Clone(v)
				i := g.IntN(len(v))
				v[i] = g.change(v[i], depth)
				m[name] = v
				return m
			}
		}
		if g.IntN(3) == 0 {
			delete(m, names[g.IntN(len(names))])
			return m
		}
	}
	g.keyword(m, depth)
	return m
}

func compile(schema any) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	if c.AddResource("mem:s", schema) != nil {
		return nil
	}
	s, err := c.Compile("mem:s")
	if err != nil {
		return nil // it refers to something that is not there
	}
	return s
}

// TestClassesAgreeWithValidator changes random schemas and validates random values with a library: if
// a value became valid or invalid, the classes say so.
func TestClassesAgreeWithValidator(t *testing.T) {
	t.Parallel()
	g := generator{rand.New(rand.NewPCG(1, 2)), true}
	compared, moved, rounds := 0, 0, 2000
	if testing.Short() {
		rounds = 400
	}
	for range rounds {
		root := map[string]any{"$defs": map[string]any{"d": g.schema(2)}, "properties": map[string]any{"a": g.schema(2), "b": g.schema(1)}}
		if g.keyword(root, 2); root["$ref"] != nil {
			continue
		}
		changed := g.change(root, 2)
		if m, ok := changed.(map[string]any); !ok || m["$defs"] == nil {
			continue
		}
		was, is := compile(root), compile(changed)
		if was == nil || is == nil {
			continue
		}
		old, _ := json.Marshal(map[string]any{"name": "t", "inputSchema": root})
		new, _ := json.Marshal(map[string]any{"name": "t", "inputSchema": changed})
		classes := Classify(SectionTools, old, new)
		has := func(ids ...string) bool {
			return slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(classes, id) })
		}
		compared++
		for range 40 {
			v := g.value(3)
			before, after := was.Validate(v) == nil, is.Validate(v) == nil
			if before == after {
				continue
			}
			moved++
			problem := ""
			switch {
			case after && !has(classLoosened, classOptional, classOther):
				problem = "became valid"
			case before && !has(classNarrowed, classOptional, classOther):
				problem = "became invalid"
			}
			if problem != "" {
				value, _ := json.Marshal(v)
				t.Fatalf("%s %s, but the classes are %q:\n%s\n%s", value, problem, strings.Join(classes, " "), old, new)
			}
		}
	}
	if compared < rounds/4 || moved < rounds/4 {
		t.Error(fmt.Sprint("only ", compared, " schemas were compared and ", moved, " values moved"))
	}
}
