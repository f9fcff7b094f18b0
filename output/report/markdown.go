package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
)

// MaxComment is the maximum size of the Markdown in bytes. GitHub limits a comment to 65,536
// characters.
const MaxComment = 65_536

// Limits of one comment, so that the first findings do not take all of the space.
const (
	maxRows         = 100
	maxCell         = 80      // runes
	maxReason       = 300     // runes
	maxMarkdownDiff = 8 << 10 // bytes
	reserved        = 400     // bytes for the last line, which says what is left out
)

// Markdown writes the report as GitHub Flavored Markdown of at most [MaxComment] bytes, for a comment
// on a pull request: a table of the findings, then each with its diff. What does not fit is left
// out, the least severe first, and the last line says how much. The first line is a comment by which
// an action finds its own comment again.
//
// Text from servers is in code, except plain words: GitHub turns mentions, references to issues and
// commits, addresses and emoji into links or pictures even if they are escaped, but not in code.
func Markdown(w io.Writer, r *Report) error {
	var out strings.Builder
	fmt.Fprintf(&out, "<!-- mcptrack %s -->\n", r.Command)
	fmt.Fprintf(&out, "### mcptrack %s: %s\n", r.Command, r.Summary())
	findings := r.sorted()
	rows, sections, diffs := 0, 0, 0
	fits := func(text string) bool {
		if out.Len()+len(text) > MaxComment-reserved {
			return false
		}
		out.WriteString(text)
		return true
	}
	failures := 0
	for i, f := range r.Failures {
		text := fmt.Sprintf("- %s could not be checked: %s\n", code(f.Server, maxCell), prose(printable.Line(f.Reason, maxReason)))
		if i == 0 {
			text = "\n" + text
		}
		if i == maxRows || !fits(text) {
			failures = len(r.Failures) - i
			break
		}
	}
	if len(findings) > 0 {
		out.WriteString("\n| | Server | Item | Finding |\n|---|---|---|---|\n")
	}
	for i, f := range findings {
		row := fmt.Sprintf("| %s | %s | %s | %s %s |\n", sign(f), cell(code(f.Server, maxCell)), cell(code(cmp.Or(f.Item, "server"), maxCell)), f.Rule, cell(prose(r.rule(f.Rule).Name)))
		if i == maxRows || !fits(row) {
			rows = len(findings) - i
			break
		}
	}
	if r.Advice != "" {
		fits("\n" + advice(r.Advice) + "\n")
	}
	for i, f := range findings {
		text := r.section(f)
		diff := fenced(f.Diff)
		if fits(text + diff) {
			continue
		}
		if !fits(text) {
			sections = len(findings) - i
			break
		}
		diffs++
	}
	var left []string
	for _, part := range []struct {
		n    int
		noun string
	}{{failures, "server"}, {rows, "row"}, {sections, "finding"}, {diffs, "diff"}} {
		if part.n > 0 {
			left = append(left, printable.Plural(part.n, part.noun))
		}
	}
	if len(left) > 0 {
		fmt.Fprintf(&out, "\nLeft out, because the size of a comment is limited: %s. `mcptrack %s` shows everything.\n", strings.Join(left, ", "), r.Command)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// section describes one finding, without its diff.
func (r *Report) section(f Finding) string {
	var out strings.Builder
	rule := r.rule(f.Rule)
	fmt.Fprintf(&out, "\n#### %s %s · %s\n\n%s %s (%s)", sign(f), code(f.Server, maxName), code(cmp.Or(f.Item, "server"), maxName), f.Rule, prose(rule.Name), f.Severity)
	if f.Accepted {
		out.WriteString(", accepted")
	}
	at := r.place(f)
	if name := r.name(at.File); name != "" {
		fmt.Fprintf(&out, ", %s", code(fmt.Sprintf("%s:%d", name, max(at.Line, 1)), maxName))
	}
	fmt.Fprintf(&out, ": %s\n", prose(f.Message))
	if help := cmp.Or(f.Help, rule.Help); help != "" {
		fmt.Fprintf(&out, "\n%s\n", prose(help))
	}
	return out.String()
}

// sign returns a character for a severity.
func sign(f Finding) string {
	return cmp.Or(map[lock.Severity]string{lock.Error: "🔴", lock.Warning: "🟡", lock.Note: "⚪"}[f.Severity], "⚪")
}

// fenced returns a diff as a block of code whose fence is longer than any in the diff.
func fenced(diff string) string {
	if diff == "" {
		return ""
	}
	text := shortened(diff, maxMarkdownDiff)
	fence := strings.Repeat("`", max(3, backticks(text)+1))
	return "\n" + fence + "diff\n" + text + fence + "\n"
}

// backticks returns the length of the longest run of backticks.
func backticks(text string) int {
	longest, run := 0, 0
	for _, c := range []byte(text) {
		if run++; c != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

// code returns a text as a span of code of one line.
func code(text string, limit int) string {
	text = printable.Line(printable.Flat(text), limit)
	if strings.Trim(text, " ") == "" {
		text = `"` + text + `"` // a span of code cannot consist of blanks
	}
	fence := strings.Repeat("`", backticks(text)+1)
	pad := ""
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") || strings.HasPrefix(text, " ") && strings.HasSuffix(text, " ") {
		pad = " "
	}
	return fence + pad + text + pad + fence
}

// cell escapes a text for a cell of a table. A vertical bar ends the cell even in code, and also after
// a backslash if the text already has one there.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\x7c`) }

// prose returns a sentence in which everything but plain words is in code.
func prose(text string) string {
	var out, special []string
	end := func() {
		if len(special) > 0 {
			out = append(out, code(strings.Join(special, " "), 0))
			special = nil
		}
	}
	for word := range strings.FieldsSeq(line(text)) {
		if !plainWord(word) {
			special = append(special, word)
			continue
		}
		end()
		out = append(out, word)
	}
	end()
	return strings.Join(out, " ")
}

// advice returns sentences as prose, and what is between two backticks as code.
func advice(text string) string {
	parts := strings.Split(text, "`")
	for i, part := range parts {
		switch {
		case i%2 == 0:
			parts[i] = prose(part)
		default:
			parts[i] = code(part, 0)
		}
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
}

// plainWord reports whether Markdown and GitHub show a word as it is: letters, with single apostrophes
// and hyphens between them, or a number of up to six digits, with punctuation around. Digits of a
// hash of a commit are at least seven.
func plainWord(word string) bool {
	middle := strings.TrimRight(strings.TrimLeft(word, `("'`), `)"'.,;:?!`)
	if middle == "" {
		return false
	}
	if strings.Trim(middle, "0123456789") == "" {
		return len(middle) < 7 && !strings.ContainsAny(word, ".)") // "1." and "1)" begin a list
	}
	if len(middle) >= 7 && strings.Trim(middle, "abcdefABCDEF") == "" {
		return false
	}
	before := '-'
	for _, r := range middle {
		between := r == '-' || r == '\'' || r == '’'
		if between && !unicode.IsLetter(before) && !unicode.IsMark(before) || !between && !unicode.IsLetter(r) && !(unicode.IsMark(r) && before != '-') {
			return false
		}
		before = r
	}
	return before != '-'
}
