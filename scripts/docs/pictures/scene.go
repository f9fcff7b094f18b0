package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// A scene is what the pictures show: a folder of notes that somebody edits, a server whose tools
// change, and a server that fails.
type scene struct {
	dir string
}

// texts are the notes when a picture begins, by path.
var texts = map[string]string{
	"deploy.md":               deploying[0],
	"on-call.md":              "# On call\n\nThe rota changes on Mondays at 10:00.\n\n* Page the second after 10 minutes\n",
	"review.md":               "# Review\n\n* Two approvals for changes of the schema\n* One for everything else\n",
	"style.md":                "# Style\n\n* Subject, verb, object\n* No jokes in error messages\n",
	"incidents/2026-11-20.md": "# 20 November: slow search\n\nStatus: open\n",
}

// deploying holds the versions of deploy.md.
var deploying = []string{
	"# Deploying\n\nAsk in #releases first.\n\n* Deploy with `make release`, any day\n* Wait 5 minutes for the checks\n* Roll back with `make rollback`\n",
	"# Deploying\n\nAsk in #releases first.\n\n* Deploy with `make release`, any day\n* Wait 12 minutes for the checks\n* Roll back with `make rollback`\n",
	"# Deploying\n\nAsk in #releases first.\n\n* Deploy with `make release`, never on Fridays\n* Wait 12 minutes for the checks\n* Watch the error rate for an hour\n* Roll back with `make rollback`\n",
}

// newScene writes the notes and the config to a temporary folder. The caller must call remove.
func newScene(program string) (*scene, error) {
	dir, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return nil, err
	}
	s := &scene{dir: dir}
	notes := filepath.Join(dir, "handbook")
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"handbook": map[string]any{"command": program, "args": []string{"vault", "--stdio", notes},
			"trackResources": true, "include": []string{"vault://note/**"}},
		"support": map[string]any{"command": program, "args": []string{"demo-server"}, "trackTools": true,
			"onConnect": []any{map[string]any{"tool": "set_interval", "arguments": map[string]any{"milliseconds": 1500}}}},
		"tickets": map[string]any{"command": "sh", "args": []string{"-c", "echo 'fatal: the licence key has expired' >&2; exit 3"},
			"trackResources": true},
	}})
	errs := []error{err, os.WriteFile(s.config(), config, 0o600)}
	for path, text := range texts {
		errs = append(errs, s.save(path, text))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

func (s *scene) config() string { return filepath.Join(s.dir, "mcp-servers.json") }

func (s *scene) remove() error { return os.RemoveAll(s.dir) }

// save writes a note, as an editor would.
func (s *scene) save(path, text string) error {
	file := filepath.Join(s.dir, "handbook", path)
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644))
}

// pause separates edits, so that none is merged with the one before.
const pause = 2500 * time.Millisecond

// play makes the edits of a scene, one after another.
func (s *scene) play() error {
	for _, edit := range []struct{ path, text string }{
		{"deploy.md", deploying[1]},
		{"incidents/2026-11-20.md", "# 20 November: slow search\n\nStatus: closed, an index was missing\n"},
		{"incidents/2026-11-24.md", "# 24 November: mail is late\n\nStatus: open\n"},
		{"on-call.md", "# On call\n\nThe rota changes on Mondays at 9:00.\n\n* Page the second after 5 minutes\n"},
		{"deploy.md", deploying[2]},
	} {
		time.Sleep(pause)
		if err := s.save(edit.path, edit.text); err != nil {
			return err
		}
	}
	time.Sleep(pause)
	return nil
}
