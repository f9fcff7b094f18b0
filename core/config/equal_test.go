package config

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
)

// TestEqualNoticesEveryField changes each field of a server in turn. A new field
// fails here until Equal knows it and the table says whether it needs a new
// connection.
func TestEqualNoticesEveryField(t *testing.T) {
	keepsConnection := map[string]bool{
		"ID": false, "Description": true, "Enabled": false, "Transport": false, "Fallback": false,
		"Command": false, "Args": false, "Env": false, "Dir": false, "URL": false, "Headers": false, "OAuth": false, "Secrets": false, "Missing": false,
		"TrackResources": true, "TrackTools": true, "TrackPrompts": true, "Include": true, "Exclude": true,
		"Read": true, "Mode": true, "PollInterval": true, "SafetyInterval": true, "CatalogInterval": true, "OnConnect": false, "Events": true,
		"Protocol": false, "ConnectTimeout": false, "RequestTimeout": true, "Unshared": true, "Unapproved": false, "Superseded": true,
	}
	base := func() Server {
		return Server{ID: "a", Program: Program{Args: []string{"x"}, Env: map[string]Secret{"K": NewSecret("v")}}, URL: NewSecret("u"),
			Headers: map[string]Secret{"H": NewSecret("v")}, OAuth: OAuth{ClientID: "c"}, Secrets: []Secret{NewSecret("v")}, Missing: []string{"m"},
			Tracking: Tracking{Include: []string{"i"}, Exclude: []string{"e"}, PollInterval: time.Second, Events: Events{Types: []EventType{{Name: "t"}}},
				OnConnect: []ToolCall{{Tool: "t", Arguments: map[string]any{"k": []any{"v"}}}}}}
	}
	if !base().Equal(base()) || !base().SameConnection(base()) {
		t.Fatal("a server must equal itself")
	}
	fields := reflect.VisibleFields(reflect.TypeFor[Server]())
	fields = slices.DeleteFunc(fields, func(f reflect.StructField) bool { return f.Anonymous || f.Name == "Intent" }) // an Intent matters as far as other fields do
	if len(fields) != len(keepsConnection) {
		t.Errorf("Server has %d fields, %d are classified", len(fields), len(keepsConnection))
	}
	for _, field := range fields {
		name := field.Name
		keeps, classified := keepsConnection[name]
		if !classified {
			t.Errorf("%s: is a new connection needed when it changes?", name)
		}
		for what, value := range changes(t, reflect.ValueOf(base()).FieldByIndex(field.Index)) {
			changed := base()
			reflect.ValueOf(&changed).Elem().FieldByIndex(field.Index).Set(value)
			if changed.Equal(base()) || base().Equal(changed) {
				t.Errorf("%s: Equal does not notice: %s", name, what)
			}
			if got := changed.SameConnection(base()); got != keeps {
				t.Errorf("%s: SameConnection is %t after: %s", name, got, what)
			}
		}
	}
}

// changes returns other values for a field.
func changes(t *testing.T, v reflect.Value) map[string]reflect.Value {
	t.Helper()
	out := map[string]reflect.Value{}
	add := func(what string, value any) { out[what] = reflect.ValueOf(value).Convert(v.Type()) }
	switch value := v.Interface().(type) {
	case bool:
		add("flip", !value)
	case Secret:
		add("other", NewSecret("changed"))
		add("emptied", Secret{})
	case string:
		add("other", value+"changed")
	case time.Duration:
		add("longer", value+1)
	case []Secret:
		add("other", []Secret{NewSecret("changed")})
		add("nil", []Secret(nil))
	case []string:
		add("element", []string{"changed"})
		add("longer", append(value, "more"))
		add("nil", []string(nil))
	case map[string]Secret:
		add("value", map[string]Secret{"K": NewSecret("changed"), "H": NewSecret("changed")})
		add("key", map[string]Secret{"changed": NewSecret("v")})
		add("nil", map[string]Secret(nil))
	case OAuth:
		add("client", OAuth{ClientID: "changed"})
		add("secret", OAuth{ClientID: "c", ClientSecret: NewSecret("changed")})
		add("scopes", OAuth{ClientID: "c", Scopes: []string{"changed"}})
		add("nothing", OAuth{})
	case Events: // all but Off, which TestEventsOffNeedsAConnection has
		add("all", Events{All: true, Types: value.Types})
		add("type", Events{Types: []EventType{{Name: "changed"}}})
		add("nothing", Events{})
		add("delivery", Events{Types: value.Types, Delivery: DeliveryPoll})
	case []ToolCall:
		add("tool", []ToolCall{{Tool: "changed", Arguments: value[0].Arguments}})
		add("arguments", []ToolCall{{Tool: "t", Arguments: map[string]any{"k": []any{"w"}}}})
		add("no arguments", []ToolCall{{Tool: "t"}})
		add("nil", []ToolCall(nil))
	default:
		if v.Kind() != reflect.String {
			t.Fatalf("no change known for %s", v.Type())
		}
		add("text", fmt.Sprint(value)+"changed")
	}
	return out
}

// TestEventsOffNeedsAConnection: servers are told when the session begins.
func TestEventsOffNeedsAConnection(t *testing.T) {
	if off := (Server{Tracking: Tracking{Events: Events{Off: true}}}); off.SameConnection(Server{}) || off.Equal(Server{}) {
		t.Error("the connection stays")
	}
}

func TestNilAndEmptyAreEqual(t *testing.T) {
	full := Server{Program: Program{Args: []string{}, Env: map[string]Secret{}}, Headers: map[string]Secret{}, Tracking: Tracking{Include: []string{}, Exclude: []string{}, OnConnect: []ToolCall{}},
		Secrets: []Secret{}, Missing: []string{}}
	if !full.Equal(Server{}) {
		t.Error("nil and empty differ")
	}
	call := func(arguments map[string]any) Server {
		return Server{Tracking: Tracking{OnConnect: []ToolCall{{Tool: "t", Arguments: arguments}}}}
	}
	if !call(map[string]any{}).Equal(call(nil)) || !call(map[string]any{}).SameConnection(call(nil)) {
		t.Error("nil and empty arguments differ")
	}
}
