package session_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A list that the server refuses, answers wrongly, hangs on or dies of is left out of the report, with one warning, if the
// server answers another one. Otherwise the server has failed.
func TestProbeLeavesOutListsThatAreNotAnswered(t *testing.T) {
	offered := []catalog.Kind{catalog.Tools, catalog.Resources, catalog.Templates, catalog.Prompts}
	for name, fault := range map[string]sessiontest.Fault{
		"refuses": {Code: -32603, Message: "no"}, "answers wrongly": {Result: map[string]any{}}, "never answers": {Silent: true}, "hangs": {Stuck: true}, "dies": {Dies: true},
	} {
		for broken := range len(offered) + 1 {
			t.Run(fmt.Sprint(name, " ", broken), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var n sessiontest.Net
					docs := n.Serve("docs", session.EraLegacy)
					docs.SetQuietly("file:///a.md", "one")
					for i, k := range offered {
						if fault.Method = k.Method(); i == broken || broken == len(offered) {
							docs.Fail(fault)
						}
					}
					var log bytes.Buffer
					entry := sessiontest.Entry("docs", func(s *config.Server) { s.RequestTimeout = 30 * time.Second })
					then := 0
					r := session.Probe(t.Context(), []config.Server{entry}, session.ProbeOptions{
						Dial: n.Dial, Session: session.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))},
						Then: func(context.Context, *session.Session, session.Report) error { then++; return nil },
					})[0]
					n.Wait()
					if broken == len(offered) {
						if r.Err == nil || then > 0 {
							t.Errorf("no list was answered: %v", r.Err)
						}
						return
					}
					if r.Err != nil || then != 1 {
						t.Fatalf("%v, Then was called %d times", r.Err, then)
					}
					for _, k := range offered {
						if _, has := r.Lists[k]; has != (k != offered[broken]) {
							t.Errorf("the report has the list of %s: %v", k, has)
						}
					}
					if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "list="+string(offered[broken])) {
						t.Errorf("warnings: %s", got)
					}
				})
			})
		}
	}
}
