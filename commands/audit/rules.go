package audit

import (
	"slices"

	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/output/report"
)

// The rules by name. The names appear only here, in the table, and where a finding is made.
const (
	ruleUnstable      = "unstable"
	ruleOrder         = "order"
	ruleDuplicate     = "duplicate"
	ruleMalformed     = "malformed"
	rulePagination    = "pagination"
	ruleCursor        = "cursor"
	ruleCapability    = "capability"
	ruleUndeclared    = "undeclared"
	ruleSubscribe     = "subscribe"
	ruleCompletion    = "completion"
	ruleSchema        = "schema"
	ruleContradiction = "contradiction"
	ruleAnnotations   = "annotations"
	ruleDescription   = "description"
	ruleParameter     = "parameter"
	ruleTitle         = "title"
	ruleName          = "name"
	ruleTwins         = "twins"
	ruleHidden        = "hidden"
	rulePhrase        = "phrase"
	ruleSecret        = "secret"
	ruleLink          = "link"
	ruleItemSize      = "item-size"
	ruleListSize      = "list-size"
	ruleUnknownMethod = "unknown-method"
	ruleUnknownItem   = "unknown-item"
	ruleBadArguments  = "bad-arguments"
	rulePing          = "ping"
	ruleEnded         = "ended"
	ruleStdout        = "stdout"
	ruleExit          = "exit"
	ruleTLS           = "tls"
	ruleAuth          = "auth"
	ruleOrigin        = "origin"
	ruleVersion       = "version"
	ruleIdentity      = "identity"
)

// Limits from which on an item or a list is reported as large, in bytes of JSON without white space.
const (
	largeItem = 10_000
	largeList = 100_000
)

// bytesPerToken is how many bytes of a definition are about one token of a model.
const bytesPerToken = 4

// rules returns the table of all rules. An id never changes and is never used for another rule.
func rules() []report.Rule {
	return []report.Rule{
		{ID: "A001", Name: ruleUnstable, Severity: lock.Warning,
			Text: "Sessions, one after the other, get different definitions of an item, or only some of them get the item.",
			Help: "Make lists the same for all sessions of a client; a client that approved or cached an item otherwise asks again and again."},
		{ID: "A002", Name: ruleOrder, Severity: lock.Note,
			Text: "Sessions get the same items in another order.",
			Help: "Sort lists. If the order changes, caches of prompts at model providers do not work."},
		{ID: "A003", Name: ruleDuplicate, Severity: lock.Error,
			Text: "A list has two items with the same name or URI.",
			Help: "Give each item a name of its own; clients keep only one of them."},
		{ID: "A004", Name: ruleMalformed, Severity: lock.Error,
			Text: "An item has no usable name or URI, or its JSON is ambiguous, such as with two members of the same name.",
			Help: "Correct the definition; clients ignore the item or read it differently."},
		{ID: "A005", Name: rulePagination, Severity: lock.Error,
			Text: "A list does not end: a cursor repeats, or the list has more pages or items than clients accept.",
			Help: "Return nextCursor only if there is another page, and another value for each page."},
		{ID: "A006", Name: ruleCursor, Severity: lock.Note,
			Text: "A list was answered for a cursor that the server never gave out; the protocol asks for error -32602.",
			Help: "Refuse unknown cursors. A client whose cursor has expired otherwise reads the wrong page or never ends."},
		{ID: "A007", Name: ruleCapability, Severity: lock.Error,
			Text: "The server declares a capability, but its request fails.",
			Help: "Declare only what the server implements, or implement it."},
		{ID: "A008", Name: ruleUndeclared, Severity: lock.Note,
			Text: "The server has items of a kind that it does not declare as capability.",
			Help: "Declare the capability; clients do not ask for what is not declared."},
		{ID: "A009", Name: ruleSubscribe, Severity: lock.Error,
			Text: "The server declares that it notifies of changes, but does not acknowledge a subscription.",
			Help: "Answer resources/subscribe (or acknowledge subscriptions/listen) for every listed resource, or do not declare it."},
		{ID: "A010", Name: ruleCompletion, Severity: lock.Warning,
			Text: "The server declares completions, but does not complete an argument of its own prompt or template.",
			Help: "Answer completion/complete for every argument, if only with an empty list of values."},
		{ID: "A011", Name: ruleSchema, Severity: lock.Error,
			Text: "The schema of a tool is not valid JSON Schema, or not that of an object.",
			Help: "Correct the schema. Some hosts and models refuse all tools of a server if one schema is invalid."},
		{ID: "A012", Name: ruleContradiction, Severity: lock.Error,
			Text: "Annotations of a tool contradict each other, or have the wrong type.",
			Help: "A tool with readOnlyHint: true changes nothing, so destructiveHint must not be true. Hints are true or false."},
		{ID: "A013", Name: ruleAnnotations, Severity: lock.Note,
			Text: "A tool does not say with readOnlyHint whether it changes something, so hosts must assume that it destroys data.",
			Help: "Add annotations: readOnlyHint, and for tools that change something destructiveHint."},
		{ID: "A014", Name: ruleDescription, Severity: lock.Warning,
			Text: "A tool, prompt or template has no description.",
			Help: "Describe what it does and when to use it; models choose by the description."},
		{ID: "A015", Name: ruleParameter, Severity: lock.Note,
			Text: "A parameter of a tool or an argument of a prompt has no description.",
			Help: "Describe the values that are expected, with an example."},
		{ID: "A016", Name: ruleTitle, Severity: lock.Note,
			Text: "A tool or prompt has no title for people.",
			Help: "Add a title; hosts show it in place of the name."},
		{ID: "A017", Name: ruleName, Severity: lock.Warning,
			Text: "The name of a tool is outside of what the protocol allows: 1 to 128 letters, digits, dots, underscores and hyphens of ASCII.",
			Help: "Rename the tool; some hosts refuse or change such names."},
		{ID: "A018", Name: ruleTwins, Severity: lock.Warning,
			Text: "Two names look alike to people or models, such as by case, or a letter of another script.",
			Help: "Rename one of them; users may approve the wrong one."},
		{ID: "A019", Name: ruleHidden, Severity: lock.Error,
			Text: "A text has hidden characters, or letters of another script within a word of ASCII.",
			Help: "Remove them. Models read what people do not see; attackers use this."},
		{ID: "A020", Name: rulePhrase, Severity: lock.Warning,
			Text: "A text instructs the model beyond the use of the item.",
			Help: "Describe the item instead. Scanners and reviewers take such a phrase for an attack."},
		{ID: "A021", Name: ruleSecret, Severity: lock.Note,
			Text: "A text mentions a secret, such as a password, token or private key.",
			Help: "Check that the text does not make a model send a secret."},
		{ID: "A022", Name: ruleLink, Severity: lock.Note,
			Text: "A text has a link or an address.",
			Help: "Check that the text does not make a model send data there."},
		{ID: "A023", Name: ruleItemSize, Severity: lock.Warning,
			Text: "The definition of one item has more than 10,000 bytes, all of which a model reads in every conversation.",
			Help: "Shorten the description and schema, or move details to a resource."},
		{ID: "A024", Name: ruleListSize, Severity: lock.Warning,
			Text: "The definitions of all tools together have more than 100,000 bytes, all of which a model reads in every conversation.",
			Help: "Split the server, or offer fewer tools by default."},
		{ID: "A025", Name: ruleUnknownMethod, Severity: lock.Warning,
			Text: "A method that does not exist is not answered with error -32601.",
			Help: "Answer with -32601; clients find out so what a server supports. Without an answer they wait."},
		{ID: "A026", Name: ruleUnknownItem, Severity: lock.Warning,
			Text: "A tool, prompt or resource that does not exist is not answered with an error.",
			Help: "Answer with an error; models otherwise take the answer for a result. Without an answer they wait."},
		{ID: "A027", Name: ruleBadArguments, Severity: lock.Warning,
			Text: "Arguments that are not an object, for a tool that does not exist, are not answered with an error.",
			Help: "Check the type of the parameters, and answer with an error (-32602)."},
		{ID: "A028", Name: rulePing, Severity: lock.Error,
			Text: "The server does not answer ping; it is server/discover from version 2026-07-28 on.",
			Help: "Answer it immediately; clients take a server that does not for dead."},
		{ID: "A029", Name: ruleEnded, Severity: lock.Error,
			Text: "The connection ended after a request that only checked the server.",
			Help: "Answer with an error instead; one bad request must not end the session."},
		{ID: "A030", Name: ruleStdout, Severity: lock.Warning,
			Text: "The server writes something to stdout that is not a message.",
			Help: "Write logs to stderr; some clients end the connection."},
		{ID: "A031", Name: ruleExit, Severity: lock.Warning,
			Text: "The process continues after its stdin has ended, and had to be stopped.",
			Help: "Exit when stdin ends; clients otherwise leave orphans behind."},
		{ID: "A032", Name: ruleTLS, Severity: lock.Warning,
			Text: "The server is reached over plain http on another machine.",
			Help: "Use https. Others on the network can read and change everything, credentials too."},
		{ID: "A033", Name: ruleAuth, Severity: lock.Warning,
			Text: "The server requires credentials, but does not say how to get them (RFC 9728).",
			Help: "Send WWW-Authenticate with status 401, and serve /.well-known/oauth-protected-resource."},
		{ID: "A034", Name: ruleOrigin, Severity: lock.Error,
			Text: "A server on this machine accepts requests of pages of other sites, whose host is in Origin and Host (DNS rebinding).",
			Help: "Answer with 403 if the Origin header is present and not allowed; otherwise any web page can use the server."},
		{ID: "A035", Name: ruleVersion, Severity: lock.Note,
			Text: "The server supports only one era of the protocol, or an old version.",
			Help: "Update the SDK. Version 2026-07-28 is the newest, and most clients use 2025-11-25."},
		{ID: "A036", Name: ruleIdentity, Severity: lock.Note,
			Text: "The server does not say its name or version.",
			Help: "Set name and version in serverInfo; logs and bug reports need them."},
	}
}

// find returns the rule with an id or name.
func find(idOrName string) (report.Rule, bool) {
	all := rules()
	i := slices.IndexFunc(all, func(r report.Rule) bool { return r.ID == idOrName || r.Name == idOrName })
	if i < 0 {
		return report.Rule{}, false
	}
	return all[i], true
}
