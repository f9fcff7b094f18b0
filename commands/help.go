package commands

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/output/markdown"
)

// manualPages writes the help of all commands. There are two forms: -h prints what fits one screen, and
// --help and the command help print everything.
type manualPages struct {
	env     *cli.Env
	g       *cli.Globals
	brief   bool // the command line contains -h
	version bool // it contains --version
}

// helpWidth is the width of help texts in columns.
const helpWidth = 80

// setHelp makes root and its commands print help in the two forms.
func setHelp(root *cobra.Command, env *cli.Env, g *cli.Globals) {
	m := &manualPages{env: env, g: g}
	root.PersistentFlags().Bool("help", false, "print the complete help; -h prints one screen")
	instead := func(given *bool) func(string) error { // of the command
		return func(value string) (err error) {
			if *given, err = strconv.ParseBool(value); *given {
				err = pflag.ErrHelp
			}
			return err
		}
	}
	// pflag does not tell a flag's short form from its long one, so -h is a flag of its own.
	root.PersistentFlags().BoolFuncP("brief-help", "h", "", instead(&m.brief))
	_ = root.PersistentFlags().MarkHidden("brief-help")
	root.Flags().BoolFunc("version", "print the version", instead(&m.version)) // cobra's links text/template
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		if m.version {
			fmt.Fprintf(env.Out, "mcptrack %s\n", env.Version)
			return
		}
		text := m.whole(cmd)
		if m.brief {
			text = m.screen(cmd)
		}
		if m.brief || env.Page == nil {
			fmt.Fprint(env.Out, text)
			return
		}
		env.Page(text)
	})
}

// screen returns what people need most often: what the command does, its main flags and three examples.
func (m *manualPages) screen(cmd *cobra.Command) string {
	first, _, _ := strings.Cut(strings.TrimSpace(m.long(cmd, func(page string) string {
		if strings.HasPrefix(page, "#") {
			_, page, _ = strings.Cut(page, "\n")
		}
		first, _, _ := strings.Cut(strings.TrimSpace(page), "\n\n")
		return first
	})), "\n\n")
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s", first, usageLine(cmd))
	if !cmd.HasParent() {
		writeGroups(&b, cmd)
		b.WriteString("\nmcptrack COMMAND -h describes a command. mcptrack --help lists help topics and flags.\n")
		return b.String()
	}
	writeSubcommands(&b, cmd)
	main := pflag.NewFlagSet("", pflag.ContinueOnError)
	main.SortFlags = false
	for _, name := range cli.MainFlagsOf(cmd) {
		main.AddFlag(cmd.Flag(name))
	}
	writeFlags(&b, "Flags", main)
	writeExamples(&b, firstExamples(cmd.Example, 3))
	fmt.Fprintf(&b, "\n%s --help tells more.\n", cmd.CommandPath())
	return b.String()
}

// whole returns everything that the help says about a command or a topic.
func (m *manualPages) whole(cmd *cobra.Command) string {
	long := m.long(cmd, func(page string) string { return page })
	if !cmd.Runnable() {
		return long
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", usageLine(cmd), strings.TrimRight(long, "\n"))
	writeExamples(&b, cmd.Example)
	if !cmd.HasParent() {
		writeGroups(&b, cmd)
		writeCommands(&b, "Help topics (mcptrack help TOPIC)", slices.DeleteFunc(slices.Clone(cmd.Commands()), func(c *cobra.Command) bool { return !c.IsAdditionalHelpTopicCommand() }))
		writeFlags(&b, "Flags of every command", cmd.PersistentFlags())
		return b.String()
	}
	writeSubcommands(&b, cmd)
	writeFlags(&b, "Flags", cmd.LocalFlags())
	b.WriteString("\nGlobal flags: mcptrack --help\n")
	return b.String()
}

// long returns the long text of a command; of a page of the manual, it returns the part that is selected.
func (m *manualPages) long(cmd *cobra.Command, part func(page string) string) string {
	if name, ok := cmd.Annotations[cli.PageAnnotation]; ok {
		return markdown.Render([]byte(part(page(name))), markdown.Options{Width: min(m.env.Width(), 100), Styles: m.g.Colours(m.env, m.env.OutTTY)})
	}
	if cmd.Long == "" {
		return cmd.Short + "."
	}
	return reflow(cmd.Long, helpWidth)
}

// writeGroups writes the list of all commands.
func writeGroups(b *strings.Builder, root *cobra.Command) {
	listed := map[*cobra.Command]bool{}
	for _, group := range groups() {
		if group.title == "" {
			continue
		}
		var commands []*cobra.Command
		for _, e := range group.commands {
			cmd, _, _ := root.Find([]string{e.name})
			commands, listed[cmd] = append(commands, cmd), true
		}
		writeCommands(b, group.title, commands)
	}
	var others []string
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && !listed[cmd] {
			others = append(others, cmd.Name())
		}
	}
	fmt.Fprintf(b, "\nOther commands: %s\n", strings.Join(others, ", "))
}

func usageLine(cmd *cobra.Command) string {
	line := "Usage:\n  " + cmd.UseLine()
	if cmd.HasAvailableSubCommands() && !strings.Contains(cmd.Use, " ") {
		line = "Usage:\n  " + cmd.CommandPath() + " [command] [flags]"
	}
	if len(cmd.Aliases) > 0 {
		line += "\n\nAlso named: " + strings.Join(cmd.Aliases, ", ")
	}
	return line + "\n"
}

func writeSubcommands(b *strings.Builder, cmd *cobra.Command) {
	writeCommands(b, "Commands", slices.DeleteFunc(slices.Clone(cmd.Commands()), func(c *cobra.Command) bool { return !c.IsAvailableCommand() }))
}

func writeCommands(b *strings.Builder, title string, commands []*cobra.Command) {
	if len(commands) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	for _, cmd := range commands {
		fmt.Fprintf(b, "  %-12s %s\n", cmd.Name(), cmd.Short)
	}
}

func writeFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if text := flags.FlagUsagesWrapped(helpWidth); text != "" {
		fmt.Fprintf(b, "\n%s:\n%s", title, text)
	}
}

func writeExamples(b *strings.Builder, examples string) {
	if examples != "" {
		fmt.Fprintf(b, "\nExamples:\n%s\n", examples)
	}
}

// firstExamples returns the first examples of a text in which a command line may continue after a
// backslash, and a line that starts with # explains the next command line.
func firstExamples(text string, most int) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if most == 0 {
			break
		}
		out = append(out, line)
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !strings.HasSuffix(line, `\`) {
			most--
		}
	}
	return strings.Join(out, "\n")
}

// reflow wraps the paragraphs of a text at a width. Lines that start with whitespace are unchanged.
func reflow(text string, width int) string {
	var out, paragraph []string
	end := func() {
		line := ""
		for _, word := range paragraph {
			if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
				out, line = append(out, line), ""
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		if line != "" {
			out = append(out, line)
		}
		paragraph = nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || strings.TrimLeft(line, " \t") != line {
			end()
			out = append(out, line)
			continue
		}
		paragraph = append(paragraph, strings.Fields(line)...)
	}
	end()
	return strings.Join(out, "\n")
}
