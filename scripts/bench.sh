#!/usr/bin/env bash
# Measures mcptrack side by side with a bare mcp-go client and the TypeScript SDK. Prints medians,
# ratios and their limits, and fails if a limit is missed. The machine should be idle; then the run
# takes less than 6 minutes on two cores.
# usage: scripts/bench.sh [-runs N] [-only NAME,NAME]
# NAME is one of start, list, ready, latency, flood, feed, gateway, attach, share, log.
# The numbers are also written to .cache/bench.json. What one process can show is a benchmark of its
# package: go test -run='^$' -bench=. ./core/vault
set -euo pipefail
cd "$(dirname "$0")/.."

bash scripts/peers.sh
mkdir -p .cache/bench
CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o .cache/bench/ ./cmd/mcptrack ./cmd/mcptrack-attach # as released
go test -trimpath -vet=off -c -o .cache/bench/ ./output/feed ./core/gateway ./core/journal/sqlitelog
(cd scripts/bench && go build -trimpath -ldflags='-s -w' -o ../../.cache/bench/ . ./empty)
exec .cache/bench/bench -built .cache/bench -peers testdata/peers -out .cache/bench.json "$@"
