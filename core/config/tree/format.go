package tree

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
)

// Format is the syntax of a file.
type Format string

// The formats. JSON may have comments and trailing commas.
const (
	JSON Format = "json"
	TOML Format = "toml"
	YAML Format = "yaml"
)

// Detect returns the format of a file: that of its name, else that of its content.
func (s *Source) Detect(path string) Format {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json", ".jsonc", ".json5", ".code-workspace":
		return JSON
	case ".toml":
		return TOML
	case ".yaml", ".yml":
		return YAML
	}
	tomlLine := regexp.MustCompile(`^\s*(\[\[?[\w."' -]+\]\]?\s*(#.*)?|[\w."'-]+\s*=.*)$`)
	yamlLine := regexp.MustCompile(`^(---|%YAML.*|-|- .*|[\w."' -]+:(\s.*)?)$`)
	for line := range bytes.Lines(s.text) {
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case len(bytes.TrimSpace(line)) == 0, line[0] == '#':
		case tomlLine.Match(line):
			return TOML
		case yamlLine.Match(line):
			return YAML
		default:
			return JSON
		}
	}
	return JSON
}
