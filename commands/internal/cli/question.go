package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/trust"
	"github.com/mcptrack/mcptrack/output/termtext"
)

// maxQuestion limits the size of a question in bytes, because a text that is too long to read is
// not consent.
const maxQuestion = 32 << 10

// Question shows the entries as written in the config, and asks whether to approve them. The error
// is ErrNoTerminal, ErrDeclined or the cause of ctx.
func (p *Permission) Question(ctx context.Context, file string, pending []Entry, ask string) error {
	if p.env.Terminal == nil {
		return ErrNoTerminal
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "\n%s was found in this folder. You have not approved what it would do:\n", printable.Line(file, 0))
	names := map[string][]string{}
	for _, e := range pending {
		e.Show(&b)
		names[e.verb] = append(names[e.verb], visible(e.Name))
	}
	if b.Len() > maxQuestion {
		return &Failure{Exit: ExitConfig, Code: "config_untrusted", Err: fmt.Errorf("%s is too long to show in a question", printable.Line(file, 200)),
			Hint: "read the file; " + p.command() + " --yes approves it"}
	}
	var parts []string
	for _, verb := range []struct{ name, noun string }{{"run", "command"}, {"contact", "server"}, {"send events to", "webhook"}, {acceptMessages, "hook"}, {letIn, "client"}} {
		if n := len(names[verb.name]); n > 0 {
			parts = append(parts, Plural(n, verb.noun)+" ("+Join(names[verb.name], 10)+")")
		}
	}
	return p.env.Ask(ctx, b.String(), strings.Join(parts, ", ")+". "+ask)
}

// Show writes everything in the entry that needs approval, as written in the config.
func (e *Entry) Show(b *bytes.Buffer) {
	rest := slices.Clone(e.Intent.Keys)
	take := func(names ...string) (value json.RawMessage) {
		rest = slices.DeleteFunc(rest, func(k config.IntentKey) bool {
			if slices.Contains(names, k.Name) && value == nil {
				value = k.Value
				return true
			}
			return false
		})
		return value
	}
	var line string
	name := visible(e.Name)
	if e.changed {
		name += " (changed)"
	}
	if e.verb == "run" {
		fmt.Fprintf(b, "\n  run %s:\n", name)
		if command, args, ok := e.Intent.Command(); ok {
			take("command", "cmd")
			take("args")
			line = shownWords(append([]string{command}, args...))
		}
	} else {
		switch e.Kind {
		case trust.Webhook:
			fmt.Fprintf(b, "\n  send events to %s:\n", visible(e.host))
		case trust.Hook:
			fmt.Fprintf(b, "\n  %s %s:\n", acceptMessages, name)
		case trust.Client:
			fmt.Fprintf(b, "\n  %s the client %s:\n", letIn, name)
			if token := take("token"); token != nil && !bytes.Contains(token, []byte("${")) {
				fmt.Fprintln(b, "      token: [secret]")
			} else if token != nil {
				fmt.Fprintf(b, "      token: %s\n", visible(string(token)))
			}
		default:
			fmt.Fprintf(b, "\n  contact %s at %s:\n", name, visible(e.host))
		}
		if take("url", "serverUrl", "httpUrl", "uri") != nil {
			line = visible(e.Intent.URL())
		}
	}
	if line != "" {
		fmt.Fprintf(b, "      %s\n", line)
	}
	for _, k := range rest {
		fmt.Fprintf(b, "      %s: %s\n", k.Name, visible(string(k.Value)))
	}
	for _, group := range []struct {
		what string
		of   func(config.Use) bool
	}{
		{"takes from your environment", func(u config.Use) bool { return u.Kind == config.UseVariable }},
		{"takes from files of this project", func(u config.Use) bool { return u.Kind == config.UseFile && !u.Outside }},
		{"takes from files OUTSIDE this project", func(u config.Use) bool { return u.Kind == config.UseFile && u.Outside }},
		{"takes from your KEYRING", func(u config.Use) bool { return u.Kind == config.UseKeyring }},
	} {
		var names []string
		for _, u := range e.Intent.Uses {
			if !group.of(u) {
				continue
			}
			name := visible(u.String())
			if u.Outside {
				name += " (" + visible(u.Path) + ")"
			}
			if u.Sets != "" {
				name += ", which sets " + visible(u.Sets)
			}
			names = append(names, name)
		}
		if len(names) > 0 {
			fmt.Fprintf(b, "      %s: %s\n", group.what, strings.Join(names, ", "))
		}
	}
}

// shownWords formats a command and its arguments on one line.
func shownWords(words []string) string {
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, " \"'\\") || visible(w) != w {
			words[i] = strconv.QuoteToASCII(w)
		}
	}
	return visible(strings.Join(words, " "))
}

// visible escapes everything in s that is not a visible character, including Unicode whitespace,
// which could push text out of sight. It replaces a run of more than three spaces with a count.
func visible(s string) string {
	var b strings.Builder
	spaces := 0
	flush := func() {
		if spaces > 3 {
			fmt.Fprintf(&b, "<%d spaces>", spaces)
		} else {
			b.WriteString(strings.Repeat(" ", spaces))
		}
		spaces = 0
	}
	for _, r := range printable.Line(s, 0) {
		if r == ' ' {
			spaces++
			continue
		}
		flush()
		if unicode.IsPrint(r) || printable.Line(string(r), 0) != string(r) { // other unprintable characters affect adjacent ones
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	flush()
	return b.String()
}

// Errors that report why the user did not consent.
var (
	ErrNoTerminal = errors.New("there is no terminal to ask on")
	ErrDeclined   = errors.New("declined")
)

// Terminal is the user's terminal, on which questions are asked.
type Terminal struct {
	io.Reader
	io.Writer
	Columns, Rows int // 0 if unknown
	// Flush discards what was typed but not read yet, so that it cannot answer a question that was not on
	// the screen; nil if nothing can be typed ahead.
	Flush func()
}

// Ask shows a text on the terminal, page by page, and asks a question. It returns nil for y and
// yes, and ErrDeclined for any other answer. Long lines are folded, and each continuation line
// starts with a bar, so that no part of a line looks like a separate line.
func (e *Env) Ask(ctx context.Context, text, question string) error {
	tty, answer, err := e.show(ctx, text, "n means no", func(tty *Terminal, prompt string) (string, error) {
		line, err := tty.reply(ctx, prompt)
		if line == "y" || line == "yes" {
			line = "" // consent counts after the last page
		}
		return line, err
	})
	if err != nil {
		return err
	}
	if answer != "" {
		return ErrDeclined
	}
	line, err := tty.reply(ctx, "\n"+question+" [y/N] ")
	if err != nil {
		return err
	}
	if line != "y" && line != "yes" {
		return ErrDeclined
	}
	return nil
}

// Choose shows a text like Ask, and asks a question until the answer is one of the letters, each of which
// is the first of a word in the question. It returns the last letter after three other answers. Between two
// pages it accepts the letters in early, which must not have a letter that consents to the text.
func (e *Env) Choose(ctx context.Context, text, question, letters, early string) (byte, error) {
	list := func(letters, separator string) string { return strings.Join(strings.Split(letters, ""), separator) }
	choose := func(tty *Terminal, prompt, letters, more string) (string, error) {
		for range 3 {
			line, err := tty.reply(ctx, prompt)
			if err != nil || line == "" && more != "" || len(line) == 1 && strings.Contains(letters, line) {
				return line, err
			}
			prompt = "Enter one of " + list(letters, ", ") + more + ": "
		}
		return letters[len(letters)-1:], nil
	}
	tty, answer, err := e.show(ctx, text, list(early, ", ")+" answer now", func(tty *Terminal, prompt string) (string, error) {
		return choose(tty, prompt, early, ", or Enter for more")
	})
	if err == nil && answer == "" {
		answer, err = choose(tty, "\n"+question+" ["+list(letters, "/")+", then Enter] ", letters, "")
	}
	if err != nil {
		return 0, err
	}
	return answer[0], nil
}

// show shows a text on the terminal, page by page, and calls ask with a prompt between two pages. If ask
// returns an answer, show ends early and returns it.
func (e *Env) show(ctx context.Context, text, hint string, ask func(tty *Terminal, prompt string) (answer string, err error)) (tty *Terminal, answer string, err error) {
	if e.Terminal == nil {
		return nil, "", ErrNoTerminal
	}
	tty, err = e.Terminal()
	if err != nil {
		return nil, "", ErrNoTerminal
	}
	width := 80
	if tty.Columns > 0 {
		width = max(tty.Columns, 40)
	}
	lines := folded(strings.TrimSuffix(text, "\n"), width)
	for page := tty.Rows - 3; tty.Rows > 0 && len(lines) > max(page, 5); lines = lines[max(page, 5):] {
		if _, err := io.WriteString(tty, strings.Join(lines[:max(page, 5)], "\n")+"\n"); err != nil {
			return nil, "", ErrNoTerminal
		}
		if answer, err := ask(tty, "-- Enter shows more, "+hint+" -- "); answer != "" || err != nil {
			return tty, answer, err
		}
	}
	if _, err := io.WriteString(tty, strings.Join(lines, "\n")+"\n"); err != nil {
		return nil, "", ErrNoTerminal
	}
	return tty, "", nil
}

// folded returns the lines of a text, wrapped at the given width.
func folded(text string, width int) (lines []string) {
	const bar = "        | "
	for line := range strings.SplitSeq(text, "\n") {
		rest, prefix := line, ""
		for {
			part, used := "", termtext.Width(prefix)
			for _, r := range rest {
				if w := termtext.Width(string(r)); used+w >= width && part != "" {
					break
				} else {
					used += w
				}
				part += string(r)
			}
			lines = append(lines, prefix+part)
			if rest = rest[len(part):]; rest == "" {
				break
			}
			prefix = bar
		}
	}
	return lines
}

// reply writes a prompt and returns the line that the user enters after it, in lower case and without
// spaces around it. It returns early if ctx ends.
func (t *Terminal) reply(ctx context.Context, prompt string) (string, error) {
	if t.Flush != nil {
		t.Flush()
	}
	if _, err := io.WriteString(t, prompt); err != nil {
		return "", ErrNoTerminal
	}
	answer := make(chan string, 1) // the goroutine below sends one value
	go func() {                    // may remain until the process exits: a terminal read cannot be interrupted
		answer <- answerLine(t)
	}()
	select {
	case line := <-answer:
		return strings.ToLower(strings.TrimSpace(line)), nil
	case <-ctx.Done():
		_, _ = io.WriteString(t, "\n")
		return "", context.Cause(ctx)
	}
}

// answerLine reads one line of at most 1 KiB. It does not read past the line, because the rest
// belongs to the next reader.
func answerLine(r io.Reader) string {
	var line []byte
	for char := make([]byte, 1); len(line) < 1024; {
		n, err := r.Read(char)
		if n > 0 && char[0] != '\n' {
			line = append(line, char[0])
		}
		if n > 0 && char[0] == '\n' || err != nil {
			break
		}
	}
	return string(line)
}
