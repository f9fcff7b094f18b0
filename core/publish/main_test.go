package publish_test

import (
	"testing"

	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	journaltest.RunNode()
	goleak.VerifyTestMain(m)
}
