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

// object is a JSON object of SARIF 2.1.0 (OASIS Standard, 27 March 2020, with errata 01). Its members are sorted.
type object = map[string]any

// SARIF writes the report as SARIF 2.1.0, as indented JSON. URIs are relative to %SRCROOT%. Columns
// are in UTF-16 code units.
//
// The fingerprint of a result covers the server, item, rule and diff, but not its place. So moving
// the server in the config does not reopen a closed alert, and a dismissed alert does not hide
// another change of the same item. Findings beyond the 5,000 that GitHub shows are left out, the
// least severe first; a notification counts them.
func SARIF(w io.Writer, r *Report) error {
	rules, notifications, results := []object{}, []object{}, []object{}
	index := map[string]int{}
	add := func(rule Rule) {
		if _, known := index[rule.ID]; !known {
			index[rule.ID] = len(rules)
			rules = append(rules, rule.sarif())
		}
	}
	for _, rule := range r.Rules {
		add(rule)
	}
	notify := func(level lock.Severity, text string) {
		notifications = append(notifications, object{"level": level, "message": message(text)})
	}
	for _, f := range r.Failures {
		notify(lock.Error, fmt.Sprintf("The server %s could not be checked: %s", printable.Line(f.Server, maxName), f.Reason))
	}
	findings := r.sorted()
	if n := len(findings) - maxResults; n > 0 {
		findings = findings[:maxResults]
		notify(lock.Warning, fmt.Sprintf("%s left out, because a report has at most %d.", were(n, "finding"), maxResults))
	}
	same := map[string]int{}
	for _, f := range findings {
		add(Rule{ID: f.Rule, Severity: f.Severity, Text: f.Rule})
		print := fingerprint(f)
		same[print]++
		properties := object{"server": printable.Line(f.Server, maxName)}
		for name, text := range map[string]string{"item": printable.Line(f.Item, maxName), "help": printable.Line(f.Help, maxMessage), "diff": shortened(f.Diff, maxSARIFDiff)} {
			if text != "" {
				properties[name] = text
			}
		}
		if f.Accepted {
			properties["accepted"] = true
		}
		results = append(results, object{
			"ruleId": f.Rule, "ruleIndex": index[f.Rule], "level": f.Severity, "message": message(f.Message), "locations": []object{r.sarifLocation(f)}, "properties": properties,
			// GitHub compares only this fingerprint. Its own has the form HASH:OCCURRENCE.
			"partialFingerprints": object{"primaryLocationLineHash": fmt.Sprintf("%s:%d", print, same[print])},
		})
	}
	driver := object{"name": "mcptrack", "informationUri": "https://github.com/mcptrack/mcptrack", "rules": rules}
	if r.Version != "" {
		driver["version"] = printable.Line(r.Version, maxName)
	}
	doc, err := printable.Marshal(object{
		"version": "2.1.0", "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
		"runs": []object{{
			"tool":              object{"driver": driver},
			"automationDetails": object{"id": "mcptrack-" + r.Command + "/"}, // GitHub takes what precedes the slash for the category
			"invocations":       []object{{"executionSuccessful": len(r.Failures) == 0, "toolExecutionNotifications": notifications}},
			"columnKind":        "utf16CodeUnits",
			"results":           results,
		}},
	})
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

func (rule Rule) sarif() object {
	severity := map[lock.Severity]string{lock.Error: "8.0", lock.Warning: "5.0", lock.Note: "2.0"}[rule.Severity]
	text := cmp.Or(rule.Text, rule.ID)
	doc := object{
		"id": rule.ID, "shortDescription": object{"text": text}, "fullDescription": object{"text": text},
		"help":                 object{"text": strings.TrimSpace(text + " " + rule.Help)},
		"defaultConfiguration": object{"level": cmp.Or(rule.Severity, lock.Warning)},
		"properties":           object{"tags": []string{"mcp", "security"}, "precision": "high", "security-severity": cmp.Or(severity, "5.0")}, // of GitHub: from 0.0 to 10.0
	}
	if rule.Name != "" {
		doc["name"] = rule.Name
	}
	return doc
}

// message returns a printable message without links and placeholders, which SARIF has in messages:
// [text](target) and {0}.
func message(text string) object {
	text = strings.ReplaceAll(printable.Line(printable.Flat(text), maxMessage), "](", "] (")
	for digit := range 10 {
		text = strings.ReplaceAll(text, fmt.Sprintf("{%d", digit), fmt.Sprintf("{ %d", digit))
	}
	return object{"text": text}
}

func fingerprint(f Finding) string {
	sum := sha256.New()
	for _, part := range []string{f.Server, f.Item, f.Rule, f.Diff} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

func (r *Report) sarifLocation(f Finding) object {
	full := printable.Line(f.Server, maxName)
	if f.Item != "" {
		full += "/" + f.item()
	}
	l := object{"logicalLocations": []object{{"name": f.item(), "fullyQualifiedName": full}}}
	at := r.place(f)
	if name := r.name(at.File); name != "" {
		region := object{"startLine": max(at.Line, 1)}
		if at.Column > 0 {
			region["startColumn"] = at.Column
		}
		l["physicalLocation"] = object{"artifactLocation": object{"uri": uri(name), "uriBaseId": "%SRCROOT%"}, "region": region}
	}
	return l
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
