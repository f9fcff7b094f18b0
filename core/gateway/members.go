package gateway

import (
	"bytes"
	"encoding/json"
)

// jsonMember is a member of a JSON object.
type jsonMember struct {
	name  string
	value json.RawMessage
	at    int // offset of the value in the object
}

// readMembers returns the members of an object in their order; nil for any other value.
func readMembers(raw json.RawMessage) []jsonMember {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil
	}
	members := []jsonMember{}
	for dec.More() {
		tok, err := dec.Token()
		name, _ := tok.(string)
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return nil
		}
		members = append(members, jsonMember{name, value, int(dec.InputOffset()) - len(value)})
	}
	return members
}

// writeMembers is the inverse of readMembers.
func writeMembers(members []jsonMember) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quote(m.name))
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
