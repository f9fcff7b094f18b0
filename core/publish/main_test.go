package publish_test

import (
	"os"
	"testing"

	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if code, node := journaltest.RunNode(); node {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}
