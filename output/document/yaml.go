package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"

	"github.com/mcptrack/mcptrack/core/printable"
)

// writeYAML writes a JSON document as YAML, its members in the same order.
func writeYAML(w io.Writer, doc []byte) error {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	n, err := yamlNode(dec)
	if err != nil {
		return err
	}
	out, err := yaml.Dump(n, yaml.WithIndent(2), yaml.WithCompactSeqIndent(), yaml.WithLineWidth(-1))
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	// The characters that Lines escapes are in double quotes here (see yamlString), where YAML
	// has the same escapes.
	_, err = io.WriteString(w, printable.Lines(string(out)))
	return err
}

// yamlNode reads one JSON value.
func yamlNode(dec *json.Decoder) (*yaml.Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if v == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for dec.More() {
			if n.Kind == yaml.MappingNode {
				name, err := dec.Token()
				if err != nil {
					return nil, err
				}
				n.Content = append(n.Content, yamlString(name.(string)))
			}
			value, err := yamlNode(dec)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, value)
		}
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle // [] or {}
		}
		_, err := dec.Token() // the end
		return n, err
	case string:
		return yamlString(v), nil
	case json.Number:
		n := &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}
		if _, err := v.Int64(); err != nil {
			n.Tag = "!!float"
		} else {
			n.Tag = "!!int"
		}
		return n, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}, nil
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	}
}

// yamlString returns the node of a string: in double quotes if it has hidden characters, which
// can only be escaped there.
func yamlString(s string) *yaml.Node {
	n := &yaml.Node{}
	_ = n.Encode(s) // in quotes where older readers would not see a string; never fails
	if printable.Lines(s) != s {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
