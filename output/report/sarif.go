package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Limits of GitHub code scanning: it shows 5,000 results, and accepts 10 MB when compressed. The size
// of a diff in the properties is limited so that 5,000 of them stay below that.
const (
	maxResults   = 5000
	maxSARIFDiff = 8 << 10
)

// The members of SARIF 2.1.0 that are written (OASIS Standard, 27 March 2020, with errata 01).
type (
	sarifLog struct {
		Version string     `json:"version"`
		Schema  string     `json:"$schema"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Automation  sarifID           `json:"automationDetails"`
		Invocations []sarifInvocation `json:"invocations"`
		ColumnKind  string            `json:"columnKind"`
		Results     []sarifResult     `json:"results"`
	}
	sarifID struct {
		ID string `json:"id"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string         `json:"id"`
		Name    string         `json:"name,omitempty"`
		Short   sarifText      `json:"shortDescription"`
		Full    sarifText      `json:"fullDescription"`
		Help    sarifText      `json:"help"`
		Default sarifLevel     `json:"defaultConfiguration"`
		Extra   sarifRuleExtra `json:"properties"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifLevel struct {
		Level lock.Severity `json:"level"`
	}
	sarifRuleExtra struct {
		Tags      []string `json:"tags"`
		Precision string   `json:"precision"`
		Severity  string   `json:"security-severity"` // of GitHub: from 0.0 to 10.0
	}
	sarifInvocation struct {
		Successful    bool                `json:"executionSuccessful"`
		Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNotification struct {
		Level   lock.Severity `json:"level"`
		Message sarifText     `json:"message"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        lock.Severity     `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
		Properties   sarifExtra        `json:"properties"`
	}
	sarifLocation struct {
		Physical *sarifPhysical `json:"physicalLocation,omitempty"`
		Logical  []sarifLogical `json:"logicalLocations"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI    string `json:"uri"`
		BaseID string `json:"uriBaseId"`
	}
	sarifRegion struct {
		Line   int `json:"startLine"`
		Column int `json:"startColumn,omitempty"`
	}
	sarifLogical struct {
		Name string `json:"name"`
		Full string `json:"fullyQualifiedName"`
	}
	sarifExtra struct {
		Server   string `json:"server"`
		Item     string `json:"item,omitempty"`
		Help     string `json:"help,omitempty"`
		Diff     string `json:"diff,omitempty"`
		Accepted bool   `json:"accepted,omitempty"`
	}
)

// SARIF writes the report as SARIF 2.1.0, as indented JSON. URIs are relative to %SRCROOT%. Columns
// are in UTF-16 code units.
//
// The fingerprint of a result covers the server, item, rule and diff, but not its place. So moving
// the server in the config does not reopen a closed alert, and a dismissed alert does not hide
// another change of the same item. Findings beyond the 5,000 that GitHub shows are left out, the
// least severe first; a notification counts them.
func SARIF(w io.Writer, r *Report) error {
	run := sarifRun{
		Tool:       sarifTool{sarifDriver{Name: "mcptrack", Version: printable.Line(r.Version, maxName), InformationURI: "https://github.com/mcptrack/mcptrack", Rules: []sarifRule{}}},
		Automation: sarifID{"mcptrack-" + r.Command + "/"}, // GitHub takes what precedes the slash for the category
		ColumnKind: "utf16CodeUnits",
		Results:    []sarifResult{},
	}
	index := map[string]int{}
	add := func(rule Rule) {
		if _, known := index[rule.ID]; !known {
			index[rule.ID] = len(run.Tool.Driver.Rules)
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, rule.sarif())
		}
	}
	for _, rule := range r.Rules {
		add(rule)
	}
	invocation := sarifInvocation{Successful: len(r.Failures) == 0}
	for _, f := range r.Failures {
		invocation.notify(lock.Error, fmt.Sprintf("The server %s could not be checked: %s", printable.Line(f.Server, maxName), f.Reason))
	}
	findings := r.sorted()
	if n := len(findings) - maxResults; n > 0 {
		findings = findings[:maxResults]
		invocation.notify(lock.Warning, fmt.Sprintf("%s left out, because a report has at most %d.", were(n, "finding"), maxResults))
	}
	run.Invocations = []sarifInvocation{invocation}
	same := map[string]int{}
	for _, f := range findings {
		add(Rule{ID: f.Rule, Severity: f.Severity, Text: f.Rule})
		print := fingerprint(f)
		same[print]++
		run.Results = append(run.Results, sarifResult{
			RuleID: f.Rule, RuleIndex: index[f.Rule], Level: f.Severity, Message: message(f.Message), Locations: r.sarifLocations(f),
			// GitHub compares only this fingerprint. Its own has the form HASH:OCCURRENCE.
			Fingerprints: map[string]string{"primaryLocationLineHash": fmt.Sprintf("%s:%d", print, same[print])},
			Properties: sarifExtra{
				Server: printable.Line(f.Server, maxName), Item: printable.Line(f.Item, maxName), Help: printable.Line(f.Help, maxMessage), Diff: shortened(f.Diff, maxSARIFDiff), Accepted: f.Accepted,
			},
		})
	}
	doc, err := printable.Marshal(sarifLog{Version: "2.1.0", Schema: "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", Runs: []sarifRun{run}})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, doc, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = w.Write(out.Bytes())
	return err
}

func (i *sarifInvocation) notify(level lock.Severity, text string) {
	i.Notifications = append(i.Notifications, sarifNotification{level, message(text)})
}

func (rule Rule) sarif() sarifRule {
	severity := map[lock.Severity]string{lock.Error: "8.0", lock.Warning: "5.0", lock.Note: "2.0"}[rule.Severity]
	text := sarifText{cmp.Or(rule.Text, rule.ID)}
	help := strings.TrimSpace(text.Text + " " + rule.Help)
	return sarifRule{
		ID: rule.ID, Name: rule.Name, Short: text, Full: text, Help: sarifText{help}, Default: sarifLevel{cmp.Or(rule.Severity, lock.Warning)},
		Extra: sarifRuleExtra{Tags: []string{"mcp", "security"}, Precision: "high", Severity: cmp.Or(severity, "5.0")},
	}
}

// message returns a printable message without links and placeholders, which SARIF has in messages:
// [text](target) and {0}.
func message(text string) sarifText {
	text = strings.ReplaceAll(printable.Line(printable.Flat(text), maxMessage), "](", "] (")
	for digit := range 10 {
		text = strings.ReplaceAll(text, fmt.Sprintf("{%d", digit), fmt.Sprintf("{ %d", digit))
	}
	return sarifText{text}
}

func fingerprint(f Finding) string {
	sum := sha256.New()
	for _, part := range []string{f.Server, f.Item, f.Rule, f.Diff} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

func (r *Report) sarifLocations(f Finding) []sarifLocation {
	full := printable.Line(f.Server, maxName)
	if f.Item != "" {
		full += "/" + f.item()
	}
	l := sarifLocation{Logical: []sarifLogical{{Name: f.item(), Full: full}}}
	at := r.place(f)
	if name := r.name(at.File); name != "" {
		l.Physical = &sarifPhysical{sarifArtifact{uri(name), "%SRCROOT%"}, sarifRegion{max(at.Line, 1), max(at.Column, 0)}}
	}
	return []sarifLocation{l}
}

// uri returns a relative path as a relative reference.
func uri(name string) string {
	segments := strings.Split(name, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.ReplaceAll(strings.Join(segments, "/"), ":", "%3A") // the first segment must not look like a scheme
}

// were returns "1 finding is" or "2 findings are".
func were(n int, noun string) string {
	if n == 1 {
		return printable.Plural(n, noun) + " is"
	}
	return printable.Plural(n, noun) + " are"
}

// shortened returns the printable first lines of a diff, of at most limit bytes. If lines are left
// out, the last line says how many.
func shortened(diff string, limit int) string {
	var out strings.Builder
	rest := diff
	for line := range strings.Lines(diff) {
		text := diffLine(strings.TrimSuffix(line, "\n"))
		if out.Len()+len(text)+40 > limit { // 40 for the last line
			fmt.Fprintf(&out, "… %s left out\n", were(strings.Count(strings.TrimSuffix(rest, "\n"), "\n")+1, "line"))
			break
		}
		out.WriteString(text + "\n")
		rest = rest[len(line):]
	}
	return out.String()
}

// diffLine returns a printable line. Tabs are kept.
func diffLine(line string) string {
	const longest = 2000
	if cut := printable.Line(line, longest); strings.HasSuffix(cut, "…") {
		return cut
	}
	return printable.Lines(line)
}
