package commands

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcptrack/mcptrack/core/printable"
)

// block is one content block of a tool result or a prompt message (ContentBlock in the
// MCP schema).
type block struct {
	Type     string       `json:"type"`
	Text     string       `json:"text"`
	Data     string       `json:"data"`
	MimeType string       `json:"mimeType"`
	URI      string       `json:"uri"`
	Resource contentEntry `json:"resource"`
}

func (b block) piece() (piece, error) {
	switch b.Type {
	case "text":
		return piece{text: b.Text}, nil
	case "image", "audio":
		data, err := base64.StdEncoding.DecodeString(b.Data)
		if err != nil {
			return piece{}, fmt.Errorf("malformed %s: %w", b.Type, err)
		}
		return piece{binary: data, mime: b.MimeType}, nil
	case "resource":
		return b.Resource.piece()
	case "resource_link":
		return piece{text: b.URI}, nil
	}
	return piece{}, fmt.Errorf("unknown content type %q; use --json to see it", printable.Line(b.Type, 40))
}

// appendTo appends the block to the pieces. A text ends in a newline.
func (b block) appendTo(pieces []piece) ([]piece, error) {
	p, err := b.piece()
	if err != nil {
		return nil, err
	}
	if p.binary == nil && !strings.HasSuffix(p.text, "\n") {
		p.text += "\n"
	}
	return append(pieces, p), nil
}

// toolPieces splits a tools/call result into its content blocks, or returns its
// structured content if it has none.
func toolPieces(raw json.RawMessage) ([]piece, error) {
	var result struct {
		Content    []block         `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("malformed result: %w", err)
	}
	if len(result.Content) == 0 && len(result.Structured) > 0 {
		return []piece{{text: string(result.Structured) + "\n"}}, nil
	}
	var pieces []piece
	var err error
	for _, b := range result.Content {
		if pieces, err = b.appendTo(pieces); err != nil {
			return nil, err
		}
	}
	return pieces, nil
}

// promptPieces splits a prompts/get result into the texts of its messages, each under
// its role if there are several.
func promptPieces(raw json.RawMessage) ([]piece, error) {
	var result struct {
		Messages []struct {
			Role    string `json:"role"`
			Content block  `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("malformed result: %w", err)
	}
	var pieces []piece
	var err error
	for i, m := range result.Messages {
		if len(result.Messages) > 1 {
			head := printable.Line(m.Role, 40) + ":\n"
			if i > 0 {
				head = "\n" + head
			}
			pieces = append(pieces, piece{text: head})
		}
		if pieces, err = m.Content.appendTo(pieces); err != nil {
			return nil, err
		}
	}
	return pieces, nil
}
