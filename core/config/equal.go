package config

import "reflect"

// Equal reports whether s and o describe the same server in every respect. Nil and empty lists
// and maps are the same, and so are Intents: what the file writes matters as far as it leads to
// other fields.
func (s Server) Equal(o Server) bool {
	return reflect.DeepEqual(s.withoutEmpty(), o.withoutEmpty())
}

// SameConnection reports whether a live connection made for s still serves o. It is false if
// anything differs that takes a new process or connection to apply: which server it is, how it
// is reached, what the session was opened with. What is followed (tracking flags, globs, read,
// intervals) can change during a session.
//
// OnConnect counts as part of the connection because its calls are made once in each session:
// in an existing one a changed list would never take effect. Whether events are followed at all
// counts, too: it is announced to the server when the session begins.
func (s Server) SameConnection(o Server) bool {
	return s.connection().Equal(o.connection())
}

// connection returns the server without the fields that can change during a session.
func (s Server) connection() Server {
	s.Tracking = Tracking{OnConnect: s.OnConnect, Events: Events{Off: s.Events.Off}}
	s.Description, s.CatalogInterval, s.RequestTimeout, s.Unshared = "", 0, 0, false
	if s.Superseded {
		s.Unapproved, s.Superseded = "", false
	}
	return s
}

// withoutEmpty returns the server with nil for every empty list and map.
func (s Server) withoutEmpty() Server {
	s.Intent = nil
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
	for _, call := range calls { // into a new list, as the caller's is shared
		if len(call.Arguments) == 0 {
			call.Arguments = nil
		}
		s.OnConnect = append(s.OnConnect, call)
	}
	return s
}
