package commands

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

const limitUsage = "limits on what one server may send, as `NAME=VALUE,...`: pages=100, items=10000, list=32MiB, line=4MiB (stdio or SSE), body=8MiB (HTTP), dirty=20000 (changed URIs waiting to be read)"

// addLimit adds --limit to the flags.
func (c *connectFlags) addLimit(f *pflag.FlagSet) {
	f.StringToStringVar(&c.limit, "limit", nil, limitUsage)
	f.Lookup("limit").DefValue = "" // which help leaves out
}

// parseLimits parses the values of --limit.
func parseLimits(values map[string]string) (session.Limits, error) {
	var l session.Limits
	names := []string{"pages", "items", "list", "line", "body", "dirty"}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		n, ok := parseBytes(values[name], math.MaxInt32) // an int on every platform
		if !ok {
			return l, usage("invalid --limit %s=%s; expected a positive number such as 500, 64KiB or 16MiB", printable.Line(name, 40), printable.Line(values[name], 40))
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
			return l, usageHint(didYouMean(name, names, "choose "+join(names, 10)), "unknown limit %q in --limit", printable.Line(name, 40))
		}
	}
	return l, nil
}

// parseBytes parses a positive number with an optional KiB, MiB, GiB or TiB suffix, at
// most max.
func parseBytes(s string, max int64) (int64, bool) {
	unit := int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if digits, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = digits, 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || n > max/unit {
		return 0, false
	}
	return n * unit, true
}
