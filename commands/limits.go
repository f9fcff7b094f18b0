package commands

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

const limitHelp = "what a server may make mcptrack hold, as `NAME=VALUE,...`: pages=100, items=10000 and list=32MiB of a list, line=4MiB of stdio or SSE, body=8MiB of an HTTP answer, dirty=20000 changed URIs at a time"

// parseLimits reads the values of --limit.
func parseLimits(values map[string]string) (session.Limits, error) {
	var l session.Limits
	for _, name := range slices.Sorted(maps.Keys(values)) {
		n, ok := parseSize(values[name])
		if !ok {
			return l, usage("--limit %s=%s: no positive number (KiB and MiB may follow it)", printable.Line(name, 40), printable.Line(values[name], 40))
		}
		switch name {
		case "pages":
			l.MaxPages = int(n)
		case "items":
			l.MaxItems = int(n)
		case "list":
			l.MaxList = n
		case "line":
			l.MaxLine = int(n)
		case "body":
			l.MaxBody = n
		case "dirty":
			l.MaxDirty = int(n)
		default:
			return l, usage("--limit: there is no limit %q; choose pages, items, list, line, body or dirty", printable.Line(name, 40))
		}
	}
	return l, nil
}

// parseSize reads a positive number, with KiB or MiB behind it or not, that fits
// an int of any machine.
func parseSize(s string) (int64, bool) {
	unit := int64(1)
	for suffix, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20} {
		if digits, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = digits, factor
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt32/unit {
		return 0, false
	}
	return n * unit, true
}
