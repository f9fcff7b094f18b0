package config

import "reflect"

// Equal reports whether s and o describe the same server in every respect. Nil and empty lists
// and maps are equal. Intents are ignored: what the file writes matters only where it leads to
// other fields.
func (s Server) Equal(o Server) bool {
	s.Intent, o.Intent = nil, nil
	return equal(reflect.ValueOf(s), reflect.ValueOf(o))
}

// SameConnection reports whether a live connection made for s still serves o: whether only
// live keys differ, which take effect in an open session.
//
// OnConnect is not live because its calls are made once in each session: a changed list would
// never take effect in an open one. Whether events are followed at all is announced to the server
// when the session begins, so Events.Off is not live, although the other members of Events are.
func (s Server) SameConnection(o Server) bool {
	return s.connection().Equal(o.connection())
}

// connection returns the server without the fields of live keys.
func (s Server) connection() Server {
	off := s.Events.Off
	for _, k := range serverKeys() {
		if k.live {
			k.setZero(&s)
		}
	}
	s.Events.Off = off
	if s.Superseded {
		s.Unapproved, s.Superseded = "", false
	}
	return s
}

// equal is reflect.DeepEqual, except that nil and empty lists and maps are equal.
func equal(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Struct:
		if a.Type() == reflect.TypeFor[Secret]() {
			break
		}
		for i := range a.NumField() {
			if !equal(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !equal(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		if a.Len() != b.Len() {
			return false
		}
		for _, key := range a.MapKeys() {
			if other := b.MapIndex(key); !other.IsValid() || !equal(a.MapIndex(key), other) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}
