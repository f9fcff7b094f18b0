package lock

import "slices"

// A Section is a part of what a server offers that the lock contains.
type Section string

// The sections of a server's lock, in the order in which they are shown.
const (
	SectionLaunch       Section = "launch"       // how the server is started or reached; has one item without a key
	SectionCapabilities Section = "capabilities" // of the protocol; has one item without a key
	SectionInstructions Section = "instructions" // has one item without a key
	SectionTools        Section = "tools"
	SectionPrompts      Section = "prompts"
	SectionSkills       Section = "skills"
	SectionTemplates    Section = "templates"
	SectionResources    Section = "resources"
	SectionContents     Section = "contents" // contents of resources, by URI
)

// SectionPolicy is not part of what a server offers: it stands for the settings of the config that a lock
// has. Only [CompareLocks] and [Server.Weakened] return drift of it.
const SectionPolicy Section = "policy"

// A Class is a kind of change. Its id never changes; ids of removed classes are not reused.
type Class struct {
	ID       string   // "L001" …
	Name     string   // the word for it in flags and configs, such as "wording"
	Severity Severity // how much the change matters to the user
	Text     string   // one sentence for the help
	// Default is what gateways do about a change of this class if the config does not say. It is empty for
	// a class that only concerns locks.
	Default Action
}

// Severity is how much a change matters.
type Severity string

// The severities, from the least to the most severe.
const (
	Note    Severity = "note"
	Warning Severity = "warning"
	Error   Severity = "error"
)

// Severities returns all severities, from the most severe to the least.
func Severities() []Severity { return []Severity{Error, Warning, Note} }

// Rank returns the position of a severity in [Severities].
func (s Severity) Rank() int { return slices.Index(Severities(), s) }

// Action is what a gateway does about a change.
type Action string

// The actions, from the weakest to the strictest.
const (
	Allow Action = "allow" // serves the new definition
	Audit Action = "audit" // serves it, and publishes lock.drift
	Hold  Action = "hold"  // serves the approved definition and refuses calls
	Block Action = "block" // serves nothing of the server
)

// Classes returns the table of all classes, in the order of their ids.
func Classes() []Class {
	return []Class{
		{"L001", "removed", Warning, "An item that was approved is no longer offered.", Audit},
		{"L002", "wording", Warning, "The description of an item, or another text of it that a model reads, has changed.", Hold},
		{"L003", "title", Note, "The title or an icon of an item has changed.", Audit},
		{"L004", "optional", Note, "A tool or prompt accepts another parameter that is not required.", Hold},
		{"L005", "added", Warning, "A tool, prompt, skill, template or resource is new.", Hold},
		{"L006", "loosened", Note, "A schema accepts more: a parameter is no longer required, or accepts more values.", Hold},
		{"L007", "narrowed", Warning, "A schema accepts less: a parameter is required now, or accepts fewer values. Callers may fail.", Hold},
		{"L008", "annotation", Error, "An annotation promises less, such as readOnlyHint: true that became false.", Hold},
		{"L009", "suspicious", Error, "A text contains a link, a word for secrets, a phrase that instructs a model, a hidden character, or a letter that imitates another, which it did not contain before; or the name of a new tool or prompt looks like another name.", Hold},
		{"L010", "instructions", Warning, "The instructions of the server have changed.", Hold},
		{"L011", "launch", Error, "The command, URL, package version or package content of the server has changed.", Block},
		{"L012", "output", Warning, "The output schema of a tool has changed.", Hold},
		{"L013", "capability", Warning, "The server declares other capabilities of the protocol.", Audit},
		{"L014", "content", Warning, "The content of a resource that the config pins, or the set of files of a skill, has changed.", Hold},
		{"L015", "other", Warning, "A change that no other class covers. A schema may accept more or less.", Hold},
		{"L016", "promise", Warning, "An annotation promises more, such as readOnlyHint: false that became true. Hosts may stop asking the user before calls.", Hold},
		{"L017", "policy", Error, "The settings \"lock\" of the server have become weaker, so that more changes are served. Gateways use them only when the lock has them.", ""},
	}
}
