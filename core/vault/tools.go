package vault

import (
	"encoding/json"
	"errors"
	"fmt"
)

const (
	noteTemplate   = notePrefix + "{+path}"
	folderTemplate = folderPrefix + "{+path}"
)

// object is a JSON object.
type object = map[string]any

func resources() (items []json.RawMessage) {
	for _, r := range [][3]string{
		{recentURI, "Recent notes", "The most recently changed notes. ?mode=preview|full&limit=&offset="},
		{statsURI, "Statistics", "The number of files and notes"},
		{tagsURI, "Tags", "The most used tags; all with ?mode=full"},
		{structureURI, "Structure", "The folder tree with file names"},
	} {
		items = append(items, encode(object{
			"uri": r[0], "name": r[0][len(scheme):], "title": r[1], "description": r[2], "mimeType": mimeJSON,
		}))
	}
	return items
}

func templates() []json.RawMessage {
	return []json.RawMessage{
		encode(object{"uriTemplate": noteTemplate, "name": "note", "title": "Note", "description": "The text of a note", "mimeType": mimeMarkdown}),
		encode(object{"uriTemplate": folderTemplate, "name": "folder", "title": "Folder", "description": "The entries of a folder", "mimeType": mimeJSON}),
	}
}

func tools() []json.RawMessage {
	text := func(description string) object { return object{"type": "string", "description": description} }
	list := object{"type": "array", "items": object{"type": "string"}}
	readOnly := object{"readOnlyHint": true, "openWorldHint": false}
	return []json.RawMessage{
		encode(object{
			"name": "search_notes", "title": "Search notes", "annotations": readOnly,
			"description": "Finds notes by words, by tag, or by both. Words must all be in the note.",
			"inputSchema": object{"type": "object", "properties": object{
				"query":  text("Words; one of three letters or more also finds longer words that begin with it"),
				"tag":    text("A tag, with or without #; those below it count"),
				"folder": text("Only notes below this folder"),
				"limit":  object{"type": "integer", "minimum": 1, "maximum": maxResults, "default": defaultLimit},
			}},
			"outputSchema": object{"type": "object", "required": []string{"results", "total"}, "properties": object{
				"total": object{"type": "integer"},
				"results": object{"type": "array", "items": object{"type": "object", "required": []string{"path", "uri", "title"}, "properties": object{
					"path": text("Path in the vault"), "uri": text("URI of the note"), "title": text("Title"), "modifiedAt": text("When it was changed"),
					"tags": list, "score": object{"type": "number"}, "snippet": text("Text around a word"),
				}}},
			}},
		}),
		encode(object{
			"name": "read_note", "title": "Read a note", "annotations": readOnly,
			"description": "The text of a note with its tags, links and backlinks.",
			"inputSchema": object{"type": "object", "required": []string{"path"}, "properties": object{
				"path": text("Path of the note, or its name as in a [[link]]"),
			}},
			"outputSchema": object{"type": "object", "required": []string{"path", "uri", "title", "content"}, "properties": object{
				"path": text("Path in the vault"), "uri": text("URI of the note"), "title": text("Title"), "modifiedAt": text("When it was changed"),
				"size": object{"type": "integer"}, "tags": list, "frontmatter": object{"type": "object"},
				"links": list, "brokenLinks": list, "backlinks": list, "content": text("The whole text"),
			}},
		}),
	}
}

// argumentError names the argument with the wrong type, without Go's type names.
func argumentError(err error) string {
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && t.Field != "" {
		return fmt.Sprintf("invalid argument: %s cannot be a %s", t.Field, t.Value)
	}
	return "arguments must be an object"
}

func toolError(text string) json.RawMessage {
	return encode(object{"isError": true, "content": []object{{"type": "text", "text": text}}})
}

// toolResult returns structured content, also as text unless text is given.
func toolResult(text string, structure any) json.RawMessage {
	if text == "" {
		text = string(encode(structure))
	}
	return encode(object{"content": []object{{"type": "text", "text": text}}, "structuredContent": structure})
}
