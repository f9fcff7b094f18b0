package lock

import (
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// schemas classifies what differs between two JSON Schemas (draft-07 to 2020-12). Either may be nil, which
// accepts everything.
//
// A text is wording (L002), also a new string with white space wherever it is. What makes a schema accept more
// is L004 or L006, and less L007, if one keyword alone decides it: see [classes.schema]. Everything else is
// L015: it may accept more, less, or both.
//
// References are not followed: what differs in a definition is L015. If a reference leads to something
// other than a definition, all that differs except texts is L015, because any part may mean something there.
func (c classes) schemas(a, b *node) { c.schema(a, b, !a.refersElsewhere() && !b.refersElsewhere()) }

// refersElsewhere reports whether there is a reference to something other than a definition of the document.
func (n *node) refersElsewhere() bool {
	if n == nil {
		return false
	}
	for name, m := range n.members {
		switch name {
		case "$ref", "$dynamicRef", "$recursiveRef":
			if !strings.HasPrefix(m.text, "#/$defs/") && !strings.HasPrefix(m.text, "#/definitions/") {
				return true
			}
		}
		if m.refersElsewhere() {
			return true
		}
	}
	return slices.ContainsFunc(n.items, (*node).refersElsewhere)
}

// schema compares two schemas. decided says that the whole accepts more if this part of it accepts more, and
// less if it accepts less. This holds for the whole itself, and for the schemas of properties, items and
// additionalProperties. Decided are:
//   - type, enum and required, and the minimum and maximum of numbers, lengths and counts.
//   - A new property: L007 if it is required or forbidden, L015 if additionalProperties was a schema or there are
//     patternProperties, which said what it may be, otherwise L004.
//   - A property that is gone: L007 if additionalProperties is false, so that callers who set it fail.
//     Otherwise it is L015, because what they set has no effect any more.
func (c classes) schema(a, b *node, decided bool) {
	no, names := jsontext.KindFalse, union(a, b)
	object := func(n *node) bool {
		return n == nil || n.is(jsontext.KindTrue) || n.is(jsontext.KindBeginObject)
	}
	switch {
	case a == b:
	case decided && (a.is(no) && object(b) || b.is(no) && object(a)):
		c.accepts(a.is(no), b.is(no))
	case !object(a) || !object(b) || len(names) == 0:
		c.add(classOther)
		c.texts(a, b)
	default:
		for _, name := range names { // whether unevaluated members are allowed depends on the other keywords
			decided = decided && !strings.HasPrefix(name, "unevaluated")
		}
		for _, name := range names {
			if a.member(name) != b.member(name) {
				c.keyword(name, a, b, decided)
			}
		}
	}
}

// keyword classifies a keyword that differs.
func (c classes) keyword(name string, a, b *node, decided bool) {
	x, y := a.member(name), b.member(name)
	switch {
	case isText(name):
		c.add(classWording)
		text := func(n *node) bool { return n == nil || n.is(jsontext.KindString) }
		if !decided && (!text(x) || !text(y)) { // a reference may lead to it
			c.add(classOther)
		}
	case name == "items", name == "additionalProperties":
		if c.schema(x, y, decided); !decided && (x == nil || y == nil) {
			c.add(classOther) // "unevaluated" further up sees whether it is absent
		}
	case slices.Contains([]string{"anyOf", "oneOf", "allOf", "$defs", "definitions", "patternProperties"}, name):
		c.parts(x, y)
	case name == "properties":
		if decided {
			c.properties(a, b)
		} else {
			c.parts(x, y)
		}
	default:
		more, less := limit(name, x, y)
		if !decided {
			more, less = false, false
		}
		c.accepts(more, less)
		c.texts(x, y)
	}
}

// isText reports whether a keyword is a text for models and users.
func isText(keyword string) bool {
	switch keyword {
	case "description", "title", "default", "examples", "example", "$comment", "enumNames", "enumDescriptions", "markdownDescription":
		return true
	}
	return false
}

// texts adds wording if a part that is not compared further has a text that it did not have: the value of such
// a keyword, or another string with white space.
func (c classes) texts(a, b *node) {
	was := map[string]bool{}
	a.strings(false, func(text string, _ bool) { was[text] = true })
	b.strings(false, func(text string, shown bool) {
		if !was[text] && (shown || strings.ContainsAny(text, " \t\r\n")) {
			c.add(classWording)
		}
	})
}

// strings calls found with each string in a value, and whether it is within the value of a text keyword.
func (n *node) strings(shown bool, found func(text string, shown bool)) {
	if n == nil {
		return
	}
	if n.is(jsontext.KindString) {
		found(n.text, shown)
	}
	for name, m := range n.members {
		found(name, false)
		m.strings(shown || isText(name), found)
	}
	for _, item := range n.items {
		item.strings(shown, found)
	}
}

// accepts adds the classes of a part that accepts more, less, both, or what is not decided.
func (c classes) accepts(more, less bool) {
	if more {
		c.add(classLoosened)
	}
	if less {
		c.add(classNarrowed)
	}
	if !more && !less {
		c.add(classOther)
	}
}

// parts compares two lists or objects of schemas, for which nothing is decided except that a text differs.
func (c classes) parts(a, b *node) {
	switch names := union(a, b); {
	case a.is(jsontext.KindBeginArray) && b.is(jsontext.KindBeginArray) && len(a.items) == len(b.items):
		for i := range a.items {
			c.schema(a.items[i], b.items[i], false)
		}
	case len(names) == 0:
		c.add(classOther)
		c.texts(a, b)
	default:
		for _, name := range names {
			if x, y := a.member(name), b.member(name); x != nil && y != nil {
				c.schema(x, y, false)
			} else {
				c.add(classOther)
				c.texts(x, y)
			}
		}
	}
}

// properties compares the properties of two objects by name.
func (c classes) properties(a, b *node) {
	was, is := a.member("properties"), b.member("properties")
	names := union(was, is)
	if len(names) == 0 || was != nil && was.members == nil || is != nil && is.members == nil {
		c.add(classOther)
	}
	before, after := a.member("additionalProperties"), b.member("additionalProperties")
	required := set("required", b.member("required"))
	for _, name := range names {
		switch x, y := was.member(name), is.member(name); {
		case x != nil && y != nil:
			c.schema(x, y, true)
		case y == nil:
			c.accepts(false, after.is(jsontext.KindFalse))
		case required[name], y.is(jsontext.KindFalse):
			c.add(classNarrowed)
		case before != nil && before.members != nil, a.member("patternProperties") != nil, b.member("patternProperties") != nil:
			c.add(classOther)
		default:
			c.add(classOptional)
		}
	}
}

// limit compares two values of a keyword that limits what a schema accepts. They are nil where it is absent.
// Both results are false if nothing is decided.
func limit(name string, x, y *node) (more, less bool) {
	switch name {
	case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties":
		was, is := bound(x, -1), bound(y, -1)
		return is < was, is > was
	case "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties":
		was, is := bound(x, 1), bound(y, 1)
		return is > was, is < was
	case "type", "enum", "required":
		was, is := set(name, x), set(name, y)
		switch {
		case x != nil && was == nil, y != nil && is == nil:
		case name == "required":
			return lacks(was, is), lacks(is, was)
		case x == nil || y == nil:
			return y == nil, x == nil
		default:
			return lacks(is, was), lacks(was, is)
		}
	}
	return false, false
}

// bound returns the value of a bound. It is infinite, with the sign, if the bound is absent, and no number,
// which is neither more nor less than any, if it has another type.
func bound(n *node, sign int) float64 {
	switch {
	case n == nil:
		return math.Inf(sign)
	case n.is(jsontext.KindNumber):
		return n.number
	}
	return math.NaN()
}

// set returns the elements of the value of a keyword, strings as their text, or nil if it is not a list. A single
// type is a list of one, and an integer is a number.
func set(name string, n *node) map[any]bool {
	var items []*node
	switch {
	case n.is(jsontext.KindBeginArray):
		items = n.items
	case n.is(jsontext.KindString) && name == "type":
		items = []*node{n}
	default:
		return nil
	}
	elements := map[any]bool{}
	for _, item := range items {
		switch {
		case !item.is(jsontext.KindString):
			elements[item] = true
		case name == "type" && item.text == "number":
			elements["integer"] = true
			fallthrough
		default:
			elements[item.text] = true
		}
	}
	return elements
}

// lacks reports whether an element of one set is missing in another.
func lacks(of, in map[any]bool) bool {
	for v := range of {
		if !in[v] {
			return true
		}
	}
	return false
}
