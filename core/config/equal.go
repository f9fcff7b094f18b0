package config

import (
	"maps"
	"reflect"
	"slices"
)

// Equal reports whether both describe the same server in every respect. Nil and
// empty lists and maps are the same.
func (s Server) Equal(o Server) bool {
	return s.SameConnection(o) &&
		s.Description == o.Description &&
		s.TrackResources == o.TrackResources &&
		s.TrackTools == o.TrackTools &&
		s.TrackPrompts == o.TrackPrompts &&
		slices.Equal(s.Include, o.Include) &&
		slices.Equal(s.Exclude, o.Exclude) &&
		s.Read == o.Read &&
		s.PollInterval == o.PollInterval &&
		s.CatalogInterval == o.CatalogInterval &&
		s.RequestTimeout == o.RequestTimeout
}

// SameConnection reports whether a live connection made for s still serves o. It
// is false if anything differs that only a new process or connection can bring
// about: who the server is, how it is reached, what the session was opened with.
// What is followed on it (tracking flags, globs, read, intervals) can change
// under a running session.
//
// OnConnect counts as part of the connection because its calls are made once in
// each session: in a kept one a changed list would never take effect.
func (s Server) SameConnection(o Server) bool {
	return s.ID == o.ID &&
		s.Enabled == o.Enabled &&
		s.Transport == o.Transport &&
		s.Fallback == o.Fallback &&
		s.Command == o.Command &&
		slices.Equal(s.Args, o.Args) &&
		maps.Equal(s.Env, o.Env) &&
		s.Dir == o.Dir &&
		s.URL == o.URL &&
		maps.Equal(s.Headers, o.Headers) &&
		slices.Equal(s.Secrets, o.Secrets) &&
		s.Protocol == o.Protocol &&
		s.ConnectTimeout == o.ConnectTimeout &&
		slices.EqualFunc(s.OnConnect, o.OnConnect, ToolCall.Equal)
}

// Equal reports whether both are the same call with the same arguments.
func (c ToolCall) Equal(o ToolCall) bool {
	if c.Tool != o.Tool || len(c.Arguments) != len(o.Arguments) {
		return false
	}
	return len(c.Arguments) == 0 || reflect.DeepEqual(c.Arguments, o.Arguments)
}
