package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/printable"
)

// The elements of JUnit XML that are written, as in the schema junit-10.xsd of Jenkins.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name     string         `xml:"name,attr"`
		Class    string         `xml:"classname,attr"`
		Error    *junitFailure  `xml:"error"`
		Failures []junitFailure `xml:"failure"`
		Output   string         `xml:"system-out,omitempty"`
	}
	junitFailure struct {
		Type    string `xml:"type,attr"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// maxJUnitDiff limits the size of a diff, in bytes.
const maxJUnitDiff = 64 << 10

// JUnit writes the report as JUnit XML: a suite for each server and a test case for each item that was
// checked. A finding is a failure of its item, or part of its output if it is accepted. A server that
// could not be checked has one case with an error.
func JUnit(w io.Writer, r *Report) error {
	found := map[Check][]Finding{}
	checks := slices.Clone(r.Checks) // and the items with findings that are not among them
	for _, f := range r.sorted() {
		found[f.Check] = append(found[f.Check], f)
		checks = append(checks, f.Check)
	}
	out := junitSuites{Name: "mcptrack " + r.Command}
	index := map[string]int{}
	suite := func(server string) *junitSuite {
		i, ok := index[server]
		if !ok {
			i = len(out.Suites)
			index[server] = i
			out.Suites = append(out.Suites, junitSuite{Name: printable.Line(server, maxName)})
		}
		return &out.Suites[i]
	}
	done := map[Check]bool{}
	for _, check := range checks {
		if done[check] {
			continue
		}
		done[check] = true
		s := suite(check.Server)
		c := junitCase{Name: check.item(), Class: s.Name}
		for _, f := range found[check] {
			text := r.junitText(f)
			if f.Accepted {
				c.Output += fmt.Sprintf("%s: %s\n%s", f.Rule, line(f.Message), text)
				continue
			}
			c.Failures = append(c.Failures, junitFailure{Type: strings.TrimSpace(f.Rule + " " + r.rule(f.Rule).Name), Message: line(f.Message), Text: text})
		}
		s.Cases = append(s.Cases, c)
	}
	for _, f := range r.Failures {
		s := suite(f.Server)
		s.Cases = append(s.Cases, junitCase{Name: "server", Class: s.Name, Error: &junitFailure{Type: "unreachable", Message: line(f.Reason)}})
	}
	for i := range out.Suites {
		s := &out.Suites[i]
		s.Tests = len(s.Cases)
		for _, c := range s.Cases {
			if len(c.Failures) > 0 {
				s.Failures++
			}
			if c.Error != nil {
				s.Errors++
			}
		}
		out.Tests, out.Failures, out.Errors = out.Tests+s.Tests, out.Failures+s.Failures, out.Errors+s.Errors
	}
	text, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	// Attributes are single lines, so these are in texts, in which both forms mean the same.
	readable := strings.NewReplacer("&#xA;", "\n", "&#x9;", "\t").Replace(string(text))
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, readable)
	return err
}

// junitText returns the place of a finding, its help and its diff.
func (r *Report) junitText(f Finding) string {
	var out strings.Builder
	at := r.place(f)
	if name := r.name(at.File); name != "" {
		fmt.Fprintf(&out, "%s:%d:%d\n", printable.Line(name, maxName), max(at.Line, 1), max(at.Column, 1))
	}
	if help := cmp.Or(f.Help, r.rule(f.Rule).Help); help != "" {
		out.WriteString(line(help) + "\n")
	}
	if f.Diff != "" {
		out.WriteString(shortened(f.Diff, maxJUnitDiff))
	}
	return out.String()
}

// line returns a message as one printable line.
func line(text string) string { return printable.Line(printable.Flat(text), maxMessage) }
