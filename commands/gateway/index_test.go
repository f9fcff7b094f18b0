package gateway

import (
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/gateway/capindex"
)

// The config and the index know the same documents.
func TestIndexOfTheConfig(t *testing.T) {
	t.Parallel()
	if got := capindex.Names(); strings.Join(got, " ") != strings.Join(config.IndexDocuments(), " ") {
		t.Errorf("the config knows %v, the index %v", config.IndexDocuments(), got)
	}
}
