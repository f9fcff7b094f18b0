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
		{"L001", "removed", Warning, "An approved item is gone.", Audit},
		{"L002", "wording", Warning, "A text that a model reads has changed.", Hold},
		{"L003", "title", Note, "A title or an icon has changed.", Audit},
		{"L004", "optional", Note, "There is a new optional parameter.", Hold},
		{"L005", "added", Warning, "An item is new.", Hold},
		{"L006", "loosened", Note, "A schema accepts more values, or requires less.", Hold},
		{"L007", "narrowed", Warning, "A schema accepts fewer values, or requires more.", Hold},
		{"L008", "annotation", Error, "An annotation promises less: readOnlyHint became false, for example.", Hold},
		{"L009", "suspicious", Error, "A text has a new link, mentions a secret, gives the model an order, or has invisible characters or characters that look like others; or a new name looks like another.", Hold},
		{"L010", "instructions", Warning, "The server's instructions have changed.", Hold},
		{"L011", "launch", Error, "The command, URL, package or script has changed.", Block},
		{"L012", "output", Warning, "An output schema has changed.", Hold},
		{"L013", "capability", Warning, "The server declares other capabilities.", Audit},
		{"L014", "content", Warning, "A pinned resource or a file of a skill has changed.", Hold},
		{"L015", "other", Warning, "Something else has changed.", Hold},
		{"L016", "promise", Warning, "An annotation promises more; hosts may stop asking you.", Hold},
		{"L017", "policy", Error, "The \"lock\" setting of the config now protects less.", ""},
	}
}
