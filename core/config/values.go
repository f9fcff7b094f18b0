package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/suggest"
)

// text returns a string value. ok is false if it is absent, or was reported as invalid.
func (e *entry) text(names ...string) (value string, f field, ok bool) {
	f, ok = e.find(names...)
	if !ok {
		return "", f, false
	}
	if f.value.Kind != tree.String {
		e.invalid(f, "string", "")
		return "", f, false
	}
	value, ok = e.expand(f.value, f.path, f.name)
	return value, f, ok
}

// boolean returns a boolean value, or the default if it is absent or invalid.
func (e *entry) boolean(name string, byDefault bool) bool {
	f, ok := e.find(name)
	switch {
	case !ok:
		return byDefault
	case f.value.Kind == tree.Bool:
		return f.value.True()
	case f.value.Kind == tree.String:
		e.invalid(f, "boolean", "write true or false, without quotes")
	default:
		e.invalid(f, "boolean", "write true or false")
	}
	return byDefault
}

// choice returns one of the allowed words, or the default if the value is absent or invalid.
// Allowed maps each spelling to its meaning.
func choice[T ~string](e *entry, byDefault T, allowed map[string]T, names ...string) (T, field, bool) {
	value, f, ok := e.text(names...)
	if !ok {
		return byDefault, f, false
	}
	if word, known := allowed[value]; known {
		return word, f, true
	}
	e.notOneOf(f, value, slices.Sorted(maps.Keys(allowed)))
	return byDefault, f, false
}

// notOneOf reports a value that is none of the allowed words.
func (e *entry) notOneOf(f field, value string, words []string) {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = strconv.Quote(word)
	}
	hint := ""
	// The expanded value is quoted only if it came from no reference: it may be a secret.
	if raw := f.value.Text; raw == value {
		if near := suggest.Nearest(raw, words); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
	}
	e.invalidValue(f.value, f.path, CodeValue, fmt.Sprintf("invalid %q; expected one of %s", f.name, strings.Join(quoted, ", ")), hint)
}

// duration returns a duration that is at least least, or the default.
func (e *entry) duration(name string, byDefault, least time.Duration) time.Duration {
	f, ok := e.find(name)
	if !ok {
		return byDefault
	}
	const units = `write the unit: "30s", "500ms" or "2m"`
	if f.value.Kind != tree.String {
		hint := ""
		if f.value.Kind == tree.Number {
			hint = units
		}
		e.invalid(f, "duration", hint)
		return byDefault
	}
	value, ok := e.expand(f.value, f.path, f.name)
	if !ok {
		return byDefault
	}
	if !isDuration(value) {
		e.invalidValue(f.value, f.path, CodeDuration, fmt.Sprintf("invalid %q; expected duration", f.name), units)
		return byDefault
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < least {
		bound := fmt.Sprintf("at least %s", least)
		if err != nil {
			bound = "less than 292 years"
		}
		e.invalidValue(f.value, f.path, CodeRange, fmt.Sprintf("invalid %q; expected %s", f.name, bound), "")
		return byDefault
	}
	return d
}

// durationOrZero is like duration, for a setting that "0" switches off: it returns -1 then.
func (e *entry) durationOrZero(name string, byDefault, least time.Duration) time.Duration {
	if f, ok := e.find(name); ok && f.value.Kind == tree.String {
		if value, ok := e.expand(f.value, f.path, f.name); ok && value == "0" {
			return -1
		}
	}
	return e.duration(name, byDefault, least)
}

// isDuration reports whether s has the form of a positive Go duration: numbers,
// each with its unit.
func isDuration(s string) bool {
	rest := s
	for rest != "" {
		digits := strings.TrimLeft(rest, "0123456789")
		if digits == rest {
			return false
		}
		if fraction, ok := strings.CutPrefix(digits, "."); ok {
			if digits = strings.TrimLeft(fraction, "0123456789"); digits == fraction {
				return false
			}
		}
		unit := ""
		for _, u := range []string{"ns", "us", "µs", "μs", "ms", "s", "m", "h"} {
			if strings.HasPrefix(digits, u) {
				unit = u
				break
			}
		}
		if unit == "" {
			return false
		}
		rest = digits[len(unit):]
	}
	return s != ""
}

// strings returns a list of strings. An invalid element is reported with the message that
// badElement returns; one that cannot be expanded is left out of the result.
func (e *entry) strings(name string, badElement func(index int) string) (values []string, raw []*tree.Node) {
	f, ok := e.find(name)
	if !ok {
		return nil, nil
	}
	if f.value.Kind != tree.List {
		hint := ""
		if f.value.Kind == tree.String {
			hint = `write a list: ["…"]`
		}
		e.invalid(f, "array of strings", hint)
		return nil, nil
	}
	return e.items(f, f.value.Items, 0, badElement)
}

// items returns the strings of a list; from is the index of its first element in messages.
func (e *entry) items(f field, items []*tree.Node, from int, badElement func(index int) string) (values []string, raw []*tree.Node) {
	for i, v := range items {
		i += from
		if v.Kind != tree.String {
			hint := ""
			if v.Kind == tree.Number || v.Kind == tree.Bool {
				hint = fmt.Sprintf("write %q", v.Text)
			}
			e.errorAt(v.Offset, f.path.index(i), CodeType, badElement(i), hint)
			continue
		}
		if value, ok := e.expand(v, f.path.index(i), fmt.Sprintf("%s[%d]", f.name, i)); ok {
			values, raw = append(values, value), append(raw, v)
		}
	}
	return values, raw
}
