package textindex_test

import (
	"fmt"

	"github.com/mcptrack/mcptrack/core/internal/textindex"
)

func Example() {
	x := textindex.New[string](textindex.Options{Term: textindex.English, Identifiers: true})
	x.Put("read_note", textindex.Field{Text: "read_note", Weight: 3}, textindex.Field{Text: "Returns the text of one note."})
	x.Put("list_notes", textindex.Field{Text: "list_notes", Weight: 3}, textindex.Field{Text: "Lists what can be read."})
	x.Put("delete", textindex.Field{Text: "delete", Weight: 3}, textindex.Field{Text: "Deletes a file."})
	x.Remove("delete")

	for _, hit := range x.Search(textindex.Query{Text: "reading notes"}) {
		fmt.Printf("%s %.2f\n", hit.ID, hit.Score)
	}
	fmt.Println(len(x.Search(textindex.Query{Text: "file"})), "with file")
	// Output:
	// read_note 0.59
	// list_notes 0.48
	// 0 with file
}
