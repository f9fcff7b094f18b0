#!/usr/bin/env bash
# Measures mcptrack side by side with other clients and prints medians, ratios
# and the limits set for them. Takes some minutes; the machine should be idle.
# usage: scripts/bench.sh [-runs N] [-only version,list,ready,latency,cpu,isolation,sse,journal,inject,vault,gateway,webhooks,top]
# The numbers are also written to .cache/bench.json. Frames per second of the dashboard are
# measured by MCPTRACK_MEASURE=1 go test -run TestSmooth -v ./output/dashboard
set -euo pipefail
cd "$(dirname "$0")/.."

bash scripts/peers.sh
mkdir -p .cache/bin
go build -trimpath -ldflags='-s -w' -o .cache/bin/mcptrack-bench ./cmd/mcptrack
go test -c -o .cache/bin/journal.test ./core/journal
(cd scripts/bench && go build -trimpath -ldflags='-s -w' -o ../../.cache/bin/bench .)
exec .cache/bin/bench -mcptrack .cache/bin/mcptrack-bench -peers testdata/peers -journal .cache/bin/journal.test -out .cache/bench.json "$@"
