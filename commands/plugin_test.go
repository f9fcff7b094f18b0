package commands

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The plugin for Claude Code has the shape of https://code.claude.com/docs/en/plugins-reference
// and https://code.claude.com/docs/en/plugin-marketplaces, and every command in it is one
// of this program.
func TestPlugin(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..")
	kebab := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	strict := func(file string, into any) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(into); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	type person struct {
		Name, Email, URL string
	}
	var plugin struct {
		Name, DisplayName, Version, Description, Homepage, Repository, License, Skills string
		Author                                                                         person
		Keywords                                                                       []string
		Experimental                                                                   struct{ Monitors string }
	}
	strict(".claude-plugin/plugin.json", &plugin)
	if !kebab.MatchString(plugin.Name) || !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(plugin.Version) || plugin.Description == "" || plugin.Author.Name == "" {
		t.Errorf("%+v", plugin)
	}
	var market struct {
		Name, Description string
		Owner             person
		Plugins           []struct{ Name, Source, Description string }
	}
	strict(".claude-plugin/marketplace.json", &market)
	if !kebab.MatchString(market.Name) || market.Owner.Name == "" || len(market.Plugins) != 1 || market.Plugins[0].Name != plugin.Name || market.Plugins[0].Source != "./" {
		t.Errorf("%+v", market)
	}
	for _, path := range []string{plugin.Skills, plugin.Experimental.Monitors} {
		if !strings.HasPrefix(path, "./") || strings.Contains(path, "..") { // relative to the plugin
			t.Errorf("%q", path)
		}
	}

	var skills []string
	files, err := filepath.Glob(filepath.Join(root, plugin.Skills, "*", "SKILL.md"))
	if err != nil || len(files) == 0 {
		t.Fatal("no skills:", err)
	}
	var texts []string
	for _, file := range files {
		skills = append(skills, filepath.Base(filepath.Dir(file)))
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, _, ok := strings.Cut(strings.TrimPrefix(string(text), "---\n"), "\n---\n")
		if !ok || !strings.HasPrefix(head, "description: ") || len(head) > 1024 {
			t.Errorf("%s begins with %q", file, head)
		}
		texts = append(texts, string(text))
	}
	var monitors []struct{ Name, Command, Description, When string }
	strict(plugin.Experimental.Monitors, &monitors)
	for _, m := range monitors {
		skill, ok := strings.CutPrefix(m.When, "on-skill-invoke:")
		if m.Name == "" || m.Description == "" || !ok || !slices.Contains(skills, skill) {
			// "always" would run the commands of a folder's config that nobody asked to be run
			t.Errorf("%+v", m)
		}
		texts = append(texts, "`"+m.Command+"`")
	}
	if len(monitors) != 1 {
		t.Errorf("%d monitors", len(monitors))
	}

	// Every command that is named exists, with its flags.
	commands := regexp.MustCompile("`(mcptrack [^`]+)`").FindAllStringSubmatch(strings.Join(texts, "\n"), -1)
	if len(commands) < 4 {
		t.Errorf("%q", commands)
	}
	for _, match := range commands {
		words := strings.Fields(match[1])[1:]
		cmd, rest, err := newRoot(&Env{}, &globals{}).Find(words)
		if err != nil || cmd.Parent() == nil {
			t.Errorf("%s: %v", match[1], err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", match[1], err)
		}
	}
}
