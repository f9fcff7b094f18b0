package tree

import (
	"errors"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// A yamlReader converts the nodes of one YAML document. The number of converted values is limited,
// because a few lines of aliases can expand to billions of values.
type yamlReader struct {
	*Source
	values int // number of nodes converted so far, counting every use of an alias
	last   place
}

// A place is a position given as a line, a column and an offset.
type place struct{ line, column, offset int }

// at returns the offset of a node. It searches from the position of the previous node, because
// nodes are mostly visited in text order; otherwise a long line would be scanned from its start for
// each node.
func (r *yamlReader) at(y *yaml.Node) int {
	offset := 0
	if y.Line == r.last.line && y.Column >= r.last.column {
		offset = r.last.offset
		for column := r.last.column; column < y.Column && offset < len(r.text); column++ {
			_, size := utf8.DecodeRune(r.text[offset:])
			offset += size
		}
	} else {
		offset = r.offset(y.Line, y.Column)
	}
	r.last = place{y.Line, y.Column, offset}
	return offset
}

// parseYAML parses a YAML stream that must contain a single document.
func (s *Source) parseYAML() (*Node, *Error) {
	var documents []yaml.Node
	err := yaml.Load(s.text, &documents, yaml.WithAllDocuments(), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(2*MaxDepth))))
	if err != nil {
		return nil, s.explainYAML(err)
	}
	if len(documents) > 1 {
		return nil, syntax(s.offset(documents[1].Line, documents[1].Column), "the file has a second document", "a config file must contain exactly one document")
	}
	if len(documents) == 0 || len(documents[0].Content) == 0 {
		return nil, syntax(0, "file is empty", "the smallest config is servers: []")
	}
	r := &yamlReader{Source: s}
	return r.node(documents[0].Content[0], 0)
}

// explainYAML converts the parser's error to an Error. It discards the error text, which may quote
// the file.
func (s *Source) explainYAML(err error) *Error {
	offset, text := 0, err.Error()
	if bad, ok := errors.AsType[*yaml.LoadError](err); ok {
		offset, text = s.offset(bad.Mark.Line, bad.Mark.Column), bad.Message
	}
	if strings.Contains(text, "depth") {
		return tooDeep(offset)
	}
	return syntax(offset, "invalid YAML here", "check the indentation, which must be spaces, that strings with : # { } [ ] are in quotes, and that aliases have an anchor")
}

func (r *yamlReader) node(y *yaml.Node, depth int) (*Node, *Error) {
	at := r.at(y)
	if depth > MaxDepth {
		return nil, tooDeep(at)
	}
	if r.values++; r.values > MaxValues {
		return nil, &Error{Offset: at, Code: CodeTooLarge, Message: "aliases expand to too many values", Hint: "write them out"}
	}
	n := &Node{Offset: at}
	switch y.Kind {
	case yaml.AliasNode:
		here := r.last
		target, err := r.node(y.Alias, depth+1)
		r.last = here
		if err != nil {
			return nil, err
		}
		copied := *target
		copied.Offset = at
		return &copied, nil
	case yaml.SequenceNode:
		n.Kind = List
		for _, item := range y.Content {
			v, err := r.node(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, v)
		}
	case yaml.MappingNode:
		n.Kind = Object
		if err := r.mapping(n, y, depth); err != nil {
			return nil, err
		}
	default:
		n.Text = y.Value
		switch y.ShortTag() {
		case "!!null":
			n.Kind = Null
		case "!!bool":
			n.Kind, n.Text = Bool, strings.ToLower(y.Value)
		case "!!int", "!!float":
			n.Kind = Number
		default:
			n.Kind = String
		}
	}
	return n, nil
}

// mapping converts the members of an object. Members merged by "<<" come last; the object's own
// members take precedence.
func (r *yamlReader) mapping(n *Node, y *yaml.Node, depth int) *Error {
	var merged []*Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		name, at := y.Content[i], r.at(y.Content[i])
		if name.Kind != yaml.ScalarNode {
			return syntax(at, "a key must be a string", "")
		}
		if name.Style == 0 && strings.ContainsFunc(name.Value, invisible) { // mostly meant as an indentation
			return syntax(at, "invalid YAML here", hintInvisible)
		}
		v, err := r.node(y.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		if name.Value == "<<" && name.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0 {
			if v.Kind == List {
				merged = append(merged, v.Items...)
			} else {
				merged = append(merged, v)
			}
			continue
		}
		n.Members = append(n.Members, &Member{Name: name.Value, Offset: at, Value: v})
	}
	known := n.Index()
	for _, from := range merged {
		if from.Kind != Object {
			return syntax(from.Offset, `the value of "<<" must be an object`, "")
		}
		for _, m := range from.Members {
			if known[m.Name] == nil {
				known[m.Name] = m
				n.Members = append(n.Members, m)
			}
		}
	}
	return nil
}
