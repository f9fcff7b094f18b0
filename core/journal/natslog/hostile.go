package natslog

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
)

// entryOf returns the entry of a message of the log; ok is false if the message is not an event.
// Any client of the cluster can store anything in the log, and readers show it on terminals:
// an entry is JSON in one line without hidden characters.
func entryOf(epoch string, m message) (e journal.Entry, ok bool) {
	data := sanitize(m.data)
	if !journal.Keepable(data) {
		return journal.Entry{}, false
	}
	return journal.NewEntry(epoch, m.seq, m.stored, data), true
}

// sanitize returns what a cluster has stored as JSON in one line without hidden characters, or
// nil if it is not JSON in one line.
func sanitize(data []byte) []byte {
	if !json.Valid(data) || !utf8.Valid(data) || bytes.ContainsAny(data, "\r\n") {
		return nil
	}
	return printable.JSON(data)
}
