package config

import "reflect"

// Equal reports whether both describe the same server in every respect. Nil and
// empty lists and maps are the same.
func (s Server) Equal(o Server) bool {
	return reflect.DeepEqual(s.withoutEmpty(), o.withoutEmpty())
}

// SameConnection reports whether a live connection made for s still serves o. It
// is false if anything differs that only a new process or connection can bring
// about: who the server is, how it is reached, what the session was opened with.
// What is followed on it (tracking flags, globs, read, intervals) can change
// under a running session.
//
// OnConnect counts as part of the connection because its calls are made once in
// each session: in an existing one a changed list would never take effect. Whether events
// are followed at all counts, too: servers are told so when the session begins.
func (s Server) SameConnection(o Server) bool {
	return s.connection().Equal(o.connection())
}

// connection returns the server without what can change under a running session.
func (s Server) connection() Server {
	s.Tracking = Tracking{OnConnect: s.OnConnect, Events: Events{Off: s.Events.Off}}
	s.Description, s.CatalogInterval, s.RequestTimeout, s.Unshared = "", 0, 0, false
	return s
}

// withoutEmpty returns the server with nil for every empty list and map.
func (s Server) withoutEmpty() Server {
	for _, list := range []*[]string{&s.Args, &s.Missing, &s.Include, &s.Exclude, &s.OAuth.Scopes} {
		if len(*list) == 0 {
			*list = nil
		}
	}
	for _, m := range []*map[string]Secret{&s.Env, &s.Headers} {
		if len(*m) == 0 {
			*m = nil
		}
	}
	if len(s.Events.Types) == 0 {
		s.Events.Types = nil
	}
	if len(s.Secrets) == 0 {
		s.Secrets = nil
	}
	calls := s.OnConnect
	s.OnConnect = nil
	for _, call := range calls { // in a list of their own, as the caller's is shared
		if len(call.Arguments) == 0 {
			call.Arguments = nil
		}
		s.OnConnect = append(s.OnConnect, call)
	}
	return s
}
