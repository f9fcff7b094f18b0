package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/output/report"
)

// Limits from which on an item or a list is reported as large, in bytes of JSON without white space.
const (
	largeItem = 10_000
	largeList = 100_000
)

// bytesPerToken is how many bytes of a definition are about one token of a model.
const bytesPerToken = 4

type rule report.Rule

// rules returns the table of all rules: id, name, severity, what is found, and what to do about it. Findings
// have the name. An id or name never changes and is never used for another rule.
func rules() []rule {
	return []rule{
		{"A001", "unstable", lock.Warning, "Sessions get different items or definitions.", "List the same items in every session."},
		{"A002", "order", lock.Note, "Sessions get the items in another order.", "Sort lists, for the caches of model providers."},
		{"A003", "duplicate", lock.Error, "Two items have the same name or URI.", "Clients keep one; rename the other."},
		{"A004", "malformed", lock.Error, "An item has no name or URI, or its JSON can be read in two ways.", "Correct it; clients ignore or misread the item."},
		{"A005", "pagination", lock.Error, "A list does not end, or is too long.", "Return nextCursor only before another page."},
		{"A006", "cursor", lock.Note, "The server answers an unknown cursor with a page.", "Answer with error -32602."},
		{"A007", "capability", lock.Error, "A declared capability fails.", "Implement it, or do not declare it."},
		{"A008", "undeclared", lock.Note, "There are items of an undeclared kind.", "Declare it, or clients do not ask."},
		{"A009", "subscribe", lock.Error, "A declared subscription is not acknowledged.", "Acknowledge it, or do not declare it."},
		{"A010", "completion", lock.Warning, "A completion fails although the server declares completions.", "Answer for every argument."},
		{"A011", "schema", lock.Error, "A schema is not valid, or not of an object.", "Correct it; some hosts refuse all tools."},
		{"A012", "contradiction", lock.Error, "Annotations contradict each other, or are not boolean.", "Correct them."},
		{"A013", "annotations", lock.Note, "A tool has no readOnlyHint.", "Add it; hosts otherwise assume the worst."},
		{"A014", "description", lock.Warning, "An item has no description.", "Say what it does and when to use it."},
		{"A015", "parameter", lock.Note, "A parameter has no description.", "Describe its values, with an example."},
		{"A016", "title", lock.Note, "A tool or prompt has no title.", "Add a title for people."},
		{"A017", "name", lock.Warning, "The name of a tool is not allowed.", "Use 1 to 128 of A-Z a-z 0-9 _ - and dots."},
		{"A018", "twins", lock.Warning, "Two names look alike.", "Rename one; users may approve the wrong one."},
		{"A019", "hidden", lock.Error, "A text has invisible characters, or characters that look like others.", "Remove them; attackers use them."},
		{"A020", "phrase", lock.Warning, "A text gives orders to the model.", "Describe the item instead."},
		{"A021", "secret", lock.Note, "A text mentions a secret.", "Check that no model sends one."},
		{"A022", "link", lock.Note, "A text has a link.", "Check that no model sends data there."},
		{"A023", "item-size", lock.Warning, "A definition has more than 10,000 bytes.", "Shorten it; models read it in every conversation."},
		{"A024", "list-size", lock.Warning, "The tools together have more than 100,000 bytes.", "Offer fewer tools by default."},
		{"A025", "unknown-method", lock.Warning, "An unknown method does not get error -32601.", "Answer with it; clients otherwise wait."},
		{"A026", "unknown-item", lock.Warning, "An unknown item gets no error.", "Answer with one; models trust the answer."},
		{"A027", "bad-arguments", lock.Warning, "Arguments that are not an object get no error.", "Answer with error -32602."},
		{"A028", "ping", lock.Error, "ping, or server/discover, is not answered.", "Answer it; clients otherwise end the session."},
		{"A029", "ended", lock.Error, "A request ended the connection.", "Answer with an error."},
		{"A030", "stdout", lock.Warning, "A line on stdout is not a message.", "Log to stderr."},
		{"A031", "exit", lock.Warning, "The process continues after its stdin has ended.", "Exit when stdin ends."},
		{"A032", "tls", lock.Warning, "The server is on another machine, without TLS.", "Use https."},
		{"A033", "auth", lock.Warning, "Credentials are required but not explained (RFC 9728).", "Send WWW-Authenticate, and serve the metadata."},
		{"A034", "origin", lock.Error, "Pages of other sites can use the server (DNS rebinding).", "Answer other origins with status 403."},
		{"A035", "version", lock.Note, "The server supports only one protocol era or an old version.", "Update the SDK."},
		{"A036", "identity", lock.Note, "serverInfo has no name or version.", "Set them, for logs and reports."},
	}
}

// find returns the rule with an id or name.
func find(idOrName string) (rule, bool) {
	all := rules()
	i := slices.IndexFunc(all, func(r rule) bool { return r.ID == idOrName || r.Name == idOrName })
	if i < 0 {
		return rule{}, false
	}
	return all[i], true
}

// RuleTable returns a Markdown table with a row for each rule.
func RuleTable() string {
	var b strings.Builder
	b.WriteString("| id, name | severity | what is found, and what to do |\n|---|---|---|\n")
	for _, r := range rules() {
		fmt.Fprintf(&b, "| `%s` %s | %s | %s %s |\n", r.ID, r.Name, r.Severity, r.Text, r.Help)
	}
	return b.String()
}
