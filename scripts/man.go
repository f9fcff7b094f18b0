//go:build ignore

// Man generates man pages from mcptrack's help: section 1 for commands, section 7 for help topics.
// See scripts/man.sh.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/mcptrack/mcptrack/commands"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: man DIR")
	}
	if err := write(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func write(dir string) error {
	env := &commands.Env{LookupEnv: func(string) (string, bool) { return "", false }}
	root, markdown := commands.Tree(env)
	for _, cmd := range root.Commands() {
		if markdown(cmd) && cmd.Runnable() {
			cmd.Long = definitions(cmd.Long)
		}
	}
	header := &doc.GenManHeader{Title: "MCPTRACK", Section: "1", Source: "mcptrack", Manual: "mcptrack"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return err
	}
	for _, cmd := range root.Commands() {
		if !markdown(cmd) || cmd.Runnable() {
			continue
		}
		page := filepath.Join(dir, "mcptrack-"+cmd.Name()+".7")
		if err := os.WriteFile(page, md2man.Render(topic(cmd)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// topic formats a help topic for md2man. The name replaces its title.
func topic(cmd *cobra.Command) []byte {
	_, body, _ := strings.Cut(cmd.Long, "\n") // without the title
	body = strings.ReplaceAll(definitions(body), "\n## ", "\n# ")
	return fmt.Appendf(nil, "%% \"MCPTRACK-%s\" \"7\" \"\" \"mcptrack\" \"mcptrack\"\n\n# NAME\n\nmcptrack-%s - %s\n\n# DESCRIPTION\n%s",
		strings.ToUpper(cmd.Name()), cmd.Name(), cmd.Short, body)
}

// definitions converts tables to definition lists, as tables of man pages do not wrap. It drops the
// header and puts the cells between the first and the last in parentheses.
func definitions(markdown string) string {
	lines := strings.Split(markdown, "\n")
	var out []string
	for i, line := range lines {
		isRule := strings.HasPrefix(line, "|--")
		isHeader := strings.HasPrefix(line, "|") && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|--")
		switch {
		case isRule || isHeader:
		case strings.HasPrefix(line, "| "):
			line = strings.ReplaceAll(line, `\|`, "\x00")
			cells := strings.Split(strings.Trim(line, "| "), " | ")
			term, text := cells[0], cells[len(cells)-1]
			if middle := cells[1:max(1, len(cells)-1)]; len(middle) > 0 {
				term += " (" + strings.Join(middle, ", ") + ")"
			}
			if len(cells) == 1 {
				text = " "
			}
			out = append(out, strings.ReplaceAll(term+"\n:   "+text+"\n", "\x00", "|"))
		default:
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}
