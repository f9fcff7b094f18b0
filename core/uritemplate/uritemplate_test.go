package uritemplate

import (
	"errors"
	"strings"
	"testing"
)

// A template that the library cannot handle is an error, not a panic.
func TestPatternOfHostileTemplates(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]error{
		"note:///{id}":                            nil,
		"note:///{id":                             ErrInvalid,
		"x:{y}" + strings.Repeat("z", MaxLength):  ErrTooLarge,
		"x:{a" + strings.Repeat(",a", 1010) + "}": ErrTooLarge,
	} {
		re, err := Pattern(template)
		if !errors.Is(err, want) || (err == nil) != (re != nil) {
			t.Errorf("%.40s: matcher %t, %v; want %v", template, re != nil, err, want)
		}
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	values := map[string]string{"a": "x y/ü", "b": "100%", "city": "Đà Nẵng", "e": "", "smile": "🙂"}
	for template, want := range map[string]string{
		"note:///{a}":             "note:///x%20y%2F%C3%BC",
		"note:///{+a}":            "note:///x%20y/%C3%BC",
		"note://{b}{?city,e}":     "note://100%25?city=%C4%90%C3%A0%20N%E1%BA%B5ng&e=",
		"note:/{/a,b}{#smile}":    "note://x%20y%2F%C3%BC/100%25#%F0%9F%99%82",
		"note:///{a:3}":           "note:///x%20y",
		"note:///{.b}{;e}":        "note:///.100%25;e",
		"note:///fixed":           "note:///fixed",
		"note:///{b}{&city}{e}":   "note:///100%25&city=%C4%90%C3%A0%20N%E1%BA%B5ng",
		"note:///{b*}/{?smile*}":  "note:///100%25/?smile=%F0%9F%99%82",
		"note:///{missing}/{b}":   "note:////100%25",
		"note:///{smile}/{+city}": "note:///%F0%9F%99%82/%C4%90%C3%A0%20N%E1%BA%B5ng",
	} {
		params := map[string]string{}
		for name, v := range values {
			if varIn(template, name) {
				params[name] = v
			}
		}
		if got, err := Expand(template, params); got != want || err != nil {
			t.Errorf("%s gives %q, %v; want %q", template, got, err, want)
		}
	}
	for template, params := range map[string]map[string]string{
		"note:///{a":      {"a": "x"},
		"note:///{a}":     {"b": "x"},
		"note:///{b}":     {"b": "\xff"},
		"note:///{c}":     {"c": "a\x00b"},
		"note:///{d:1}":   {"d": "ü"},
		"note:///{a b}/x": {"a": "x"},
	} {
		if got, err := Expand(template, params); err == nil {
			t.Errorf("%s with %q gives %q", template, params, got)
		}
	}
}

// varIn reports whether the template has the variable.
func varIn(template, name string) bool {
	for part := range strings.SplitSeq(template, "{") {
		expr, _, ok := strings.Cut(part, "}")
		if !ok {
			continue
		}
		for v := range strings.SplitSeq(strings.TrimLeft(expr, "+#./;?&"), ",") {
			v, _, _ = strings.Cut(strings.TrimSuffix(v, "*"), ":")
			if v == name {
				return true
			}
		}
	}
	return false
}
