package commands

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
)

// history and diff look in several places unless a flag names one: the first with versions counts, and
// of several failures the one that says most is reported.
func TestFirstPlace(t *testing.T) {
	failing := func(exit int, code string, err error) func(context.Context) error {
		return func(context.Context) error { return &cli.Failure{Exit: exit, Code: code, Err: err} }
	}
	none := failing(cli.ExitFailed, "no_versions", io.EOF)
	nothing := failing(cli.ExitFailed, "nothing_stored", io.EOF)
	closed := failing(cli.ExitUnreachable, "unreachable", io.EOF)
	token := func(ctx context.Context) error {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
		defer srv.Close()
		client, err := (&cli.RemoteFlags{URL: srv.URL}).Client(&cli.Env{LookupEnv: func(string) (string, bool) { return "", false }})
		if err != nil {
			return err
		}
		_, err = servedVersions{client, "s", "u"}.versions(ctx)
		return err
	}
	found := func(context.Context) error { return nil }
	for name, c := range map[string]struct {
		places []func(context.Context) error
		exit   int
		code   string
	}{
		"the second":           {[]func(context.Context) error{closed, found}, 0, ""},
		"the first":            {[]func(context.Context) error{found, token}, 0, ""},
		"no other after that":  {[]func(context.Context) error{failing(1, "no_text", io.EOF), found}, 1, "no_text"},
		"nothing anywhere":     {[]func(context.Context) error{closed, nothing}, 1, "nothing_stored"},
		"other resources only": {[]func(context.Context) error{nothing, none}, 1, "no_versions"},
		"a token is needed":    {[]func(context.Context) error{token, nothing}, cli.ExitRefused, "refused"},
	} {
		err := firstPlace(t.Context(), slog.New(slog.DiscardHandler), c.places)
		if c.code == "" && err == nil {
			continue
		}
		if f := cli.Classify(t.Context(), err); f.Exit != c.exit || f.Code != c.code {
			t.Errorf("%s: exit %d, %s", name, f.Exit, f.Code)
		}
	}
}

// Every version names its server and its resource, and times have a zone in a pipe.
func TestHistoryItems(t *testing.T) {
	dir := t.TempDir()
	j, err := sqlitelog.Open(t.Context(), sqlitelog.Options{Dir: dir, Durability: journal.OS})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 24, 9, 30, 0, 0, time.UTC)
	if err := j.Append(&event.Event{ServerID: "s", ResourceURI: "x://u", Timestamp: at, Cause: event.CauseNotify, Payload: event.ResourceUpdated{Digest: catalog.Digest{2}, PreviousDigest: catalog.Digest{1}}}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	b := clitest.New(t, Main)
	code, out := b.Run(t, "history", "s", "x://u", "--data-dir", dir, "--json")
	var versions []struct{ ServerID, URI, Timestamp string }
	if err := json.Unmarshal([]byte(out), &versions); err != nil || code != 0 || len(versions) != 2 {
		t.Fatalf("exit %d, %v: %s", code, err, out)
	}
	for _, v := range versions {
		if v.ServerID != "s" || v.URI != "x://u" {
			t.Errorf("a version is %+v", v)
		}
	}
	if code, out := b.Run(t, "history", "s", "x://u", "--data-dir", dir, "-v"); code != 0 || !strings.Contains(out, "2026-11-24T09:30:00.000Z") || !strings.Contains(b.Stderr.String(), "versions from the log in "+dir) {
		t.Errorf("exit %d: %s%s", code, out, b.Stderr.String())
	}
}
