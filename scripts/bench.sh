#!/usr/bin/env bash
# Measures mcptrack side by side with other clients. Prints medians, ratios, their limits and the
# duration of the run. The machine should be idle; then the run takes less than 10 minutes.
# usage: scripts/bench.sh [-runs N] [-only NAME,NAME]
# NAME is one of version, first, list, ready, latency, cpu, isolation, sse, journal, inject,
# gateway, lock, webhooks, top, attach, history, vault, share, drift.
# drift starts 32 published servers 20 times each and counts what verify reports. It takes half an hour,
# so it is measured only if it is named.
# The numbers are also written to .cache/bench.json. To measure the frame rate of the dashboard, run
# MCPTRACK_MEASURE=1 go test -run TestSmooth -v ./output/dashboard
set -euo pipefail
cd "$(dirname "$0")/.."
began=$EPOCHSECONDS

bash scripts/peers.sh
mkdir -p .cache/bin .cache/bench
go build -trimpath -ldflags='-s -w' -o .cache/bench/ ./cmd/mcptrack ./cmd/mcptrack-attach
go build -trimpath -ldflags='-s -w' -o .cache/bin/logbench ./scripts/logbench
(cd scripts/bench && go build -trimpath -ldflags='-s -w' -o ../../.cache/bin/bench .)
exec .cache/bin/bench -mcptrack .cache/bench/mcptrack -peers testdata/peers -log .cache/bin/logbench -out .cache/bench.json -began "$began" "$@"
