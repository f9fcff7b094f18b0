package catalog

// MaxDepth is how deeply objects and arrays may be nested in the JSON of a server and in
// the frontmatter of a note. For configs, package config has another limit, whose error
// names the place.
const MaxDepth = 64

// Depth returns how deeply objects and arrays are nested in valid JSON.
func Depth(raw []byte) int {
	now, most := 0, 0
	inString := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			now++
			most = max(most, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return most
}
