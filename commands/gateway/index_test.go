package gateway

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/gateway/capindex"
)

// Flags override the environment, and the environment overrides defaults.
func TestIndexFlagsAndEnvironment(t *testing.T) {
	t.Parallel()
	environ := map[string]string{"MCPTRACK_INDEX": "true", "MCPTRACK_INDEX_EXPOSE": "stats, full", "MCPTRACK_INDEX_TTL": "7s"}
	for _, tt := range []struct {
		given  []string
		index  bool
		expose string
		lasts  time.Duration
	}{
		{nil, true, "stats full", 7 * time.Second},
		{[]string{"--index=false"}, false, "stats full", 7 * time.Second},
		{[]string{"--index-expose", "summary", "--index-ttl", "3m"}, true, "summary", 3 * time.Minute},
	} {
		env := &cli.Env{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, LookupEnv: func(k string) (string, bool) { v, ok := environ[k]; return v, ok }}
		var f indexFlags
		flags := pflag.NewFlagSet("gateway", pflag.ContinueOnError)
		f.add(flags)
		if err := flags.Parse(tt.given); err != nil {
			t.Fatal(err)
		}
		if err := f.parse(env, flags); err != nil {
			t.Errorf("%q: %v", tt.given, err)
		}
		if f.index != tt.index || strings.Join(f.expose, " ") != tt.expose || f.lasts != tt.lasts {
			t.Errorf("%q: %+v", tt.given, f)
		}
	}
	for _, name := range []string{"MCPTRACK_INDEX", "MCPTRACK_INDEX_EXPOSE", "MCPTRACK_INDEX_TTL"} {
		env := &cli.Env{LookupEnv: func(k string) (string, bool) {
			if k != name {
				return "", false
			}
			return "perhaps", true
		}}
		var f indexFlags
		flags := pflag.NewFlagSet("gateway", pflag.ContinueOnError)
		f.add(flags)
		if err := f.parse(env, flags); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The config sets what neither a flag nor the environment sets.
func TestIndexOfTheConfig(t *testing.T) {
	t.Parallel()
	c := config.Index{Enabled: true, Expose: []string{"stats"}, TTL: time.Hour}
	f := indexFlags{expose: []string{"full"}, lasts: time.Minute}
	f.fromConfig(c, func(string) bool { return false })
	if !f.index || strings.Join(f.expose, " ") != "stats" || f.lasts != time.Hour {
		t.Errorf("%+v", f)
	}
	f = indexFlags{expose: []string{"full"}, lasts: time.Minute}
	f.fromConfig(c, func(string) bool { return true })
	if f.index || strings.Join(f.expose, " ") != "full" || f.lasts != time.Minute {
		t.Errorf("%+v", f)
	}
	if got := capindex.Names(); strings.Join(got, " ") != strings.Join(config.IndexDocuments(), " ") {
		t.Errorf("the config knows %v, the index %v", config.IndexDocuments(), got)
	}
}
