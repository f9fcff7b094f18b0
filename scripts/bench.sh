#!/usr/bin/env bash
# Measures mcptrack side by side with other clients and prints medians, ratios, the limits
# set for them, and how long it took: less than 10 minutes if the machine is idle, as it
# should be.
# usage: scripts/bench.sh [-runs N] [-only NAME,NAME]
# NAME is one of version, list, ready, latency, cpu, isolation, sse, journal, inject, gateway,
# webhooks, top, history, vault.
# The numbers are also written to .cache/bench.json. Frames per second of the dashboard are
# measured by MCPTRACK_MEASURE=1 go test -run TestSmooth -v ./output/dashboard
set -euo pipefail
cd "$(dirname "$0")/.."
began=$EPOCHSECONDS

bash scripts/peers.sh
mkdir -p .cache/bin
go build -trimpath -ldflags='-s -w' -o .cache/bin/mcptrack-bench ./cmd/mcptrack
go build -trimpath -ldflags='-s -w' -o .cache/bin/logbench ./scripts/logbench
(cd scripts/bench && go build -trimpath -ldflags='-s -w' -o ../../.cache/bin/bench .)
exec .cache/bin/bench -mcptrack .cache/bin/mcptrack-bench -peers testdata/peers -log .cache/bin/logbench -out .cache/bench.json -began "$began" "$@"
