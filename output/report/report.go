// Package report writes findings about servers for CI: as SARIF, and as Markdown for a comment on a pull
// request.
//
// The order of the findings in a report does not matter: each format sorts them, the most severe
// first, and the same report always results in the same bytes. No format contains a time or a path
// of the machine. All text comes from servers and configs and is treated as hostile: hidden
// characters are escaped (package printable), and nothing becomes markup.
//
// Why no library: owenrumney/go-sarif adds pointers and setters around the few members of SARIF
// that are used here. In tests, santhosh-tekuri/jsonschema/v6 checks that SARIF is valid by its schema.
package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"unicode/utf16"

	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
)

// A Report is the result of one run of a command that checks servers.
type Report struct {
	Command string // the command that made the report, such as "verify"
	Version string // of mcptrack; may be empty
	// Rules are all rules that the command checks, with or without findings.
	Rules []Rule
	// Servers are the ids of those that were checked, with or without findings.
	Servers  []string
	Findings []Finding
	// Failures are the servers that could not be checked.
	Failures []Failure
	// Root is the absolute path of the repository or working directory. Files are reported relative
	// to it.
	Root string
	// Place is where findings are reported that have no location of their own; usually line 1 of the
	// config.
	Place Location
	// Advice tells what to do about the findings, with commands in backticks; may be empty.
	Advice string
}

// A Rule is a kind of finding. Its ID never changes.
type Rule struct {
	ID       string
	Name     string // a word
	Severity lock.Severity
	Text     string // one sentence
	Help     string // what to do about a finding; may be empty
}

// A Finding is one problem with an item of a server.
type Finding struct {
	Server   string
	Item     string // such as "tool/NAME"; empty for the server itself
	Rule     string // id of a rule
	Severity lock.Severity
	Message  string // one sentence
	Help     string // what to do about it; may be empty
	Location Location
	Diff     string // a unified diff; may be empty
	// Accepted means that the finding does not make the command fail.
	Accepted bool
}

// A Failure is a server that could not be checked.
type Failure struct {
	Server string
	Reason string
}

// A Location is a position in a file. Line and Column are 1-based; 0 means unknown.
type Location struct {
	File   string
	Line   int
	Column int // in UTF-16 code units, as in SARIF; see [At]
}

// At returns the location of a position in the text of a file. column is 1-based and counts Unicode
// code points without a byte order mark, as the problems of package config do.
func At(file string, text []byte, line, column int) Location {
	l := Location{File: file, Line: line, Column: column}
	rest := strings.TrimPrefix(string(text), "\ufeff")
	for range line - 1 {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	rest, _, _ = strings.Cut(rest, "\n")
	for _, r := range rest {
		if column--; column < 1 {
			break
		}
		l.Column += max(utf16.RuneLen(r), 1) - 1
	}
	return l
}

// name returns the file relative to the root, with slashes; only its base name if it lies outside.
func (r *Report) name(file string) string {
	if file == "" {
		return ""
	}
	if filepath.IsAbs(file) {
		rel, err := filepath.Rel(r.Root, file)
		if err != nil {
			return filepath.Base(file)
		}
		file = rel
	}
	if !filepath.IsLocal(file) {
		return filepath.Base(file)
	}
	return filepath.ToSlash(filepath.Clean(file))
}

// place returns where a finding is reported.
func (r *Report) place(f Finding) Location {
	if f.Location.File == "" {
		return r.Place
	}
	return f.Location
}

// sorted returns the findings, the most severe first.
func (r *Report) sorted() []Finding {
	all := slices.Clone(r.Findings)
	sort.SliceStable(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(a.Severity.Rank()-b.Severity.Rank(), strings.Compare(a.Server, b.Server), strings.Compare(a.Item, b.Item),
			strings.Compare(a.Rule, b.Rule), strings.Compare(a.Message, b.Message), strings.Compare(a.Diff, b.Diff)) < 0
	})
	return all
}

func (r *Report) rule(id string) Rule {
	for _, rule := range r.Rules {
		if rule.ID == id {
			return rule
		}
	}
	return Rule{ID: id}
}

// item returns the printable name of what was checked.
func (f Finding) item() string { return printable.Line(cmp.Or(f.Item, "server"), maxName) }

// Limits of what is shown of one text, in runes.
const (
	maxName    = 200
	maxMessage = 1000
)

// Summary returns one line that counts the findings.
func (r *Report) Summary() string {
	servers := map[string]bool{}
	for _, id := range r.Servers {
		servers[id] = true
	}
	with, counts := map[string]bool{}, map[lock.Severity]int{}
	for _, f := range r.Findings {
		servers[f.Server], with[f.Server] = true, true
		counts[f.Severity]++
	}
	var parts []string
	for _, s := range lock.Severities() {
		if n := counts[s]; n > 0 {
			parts = append(parts, printable.Plural(n, string(s)))
		}
	}
	text := fmt.Sprintf("no findings on %s", printable.Plural(len(servers), "server"))
	if len(r.Findings) > 0 {
		text = fmt.Sprintf("%s on %d of %s: %s", printable.Plural(len(r.Findings), "finding"), len(with), printable.Plural(len(servers), "server"), strings.Join(parts, ", "))
	}
	if n := len(r.Failures); n > 0 {
		text += fmt.Sprintf("; %s could not be checked", printable.Plural(n, "server"))
	}
	return text
}

// line returns a message as one printable line.
func line(text string) string { return printable.Line(printable.Flat(text), maxMessage) }
