#!/usr/bin/env bash
# Injects faults into servers, networks, logs and the tracker while resources change, and compares
# what clients received with the truth. It runs the real program. It prints a table and fails if
# anything was lost, stale, duplicated, hung or leaked.
# usage: scripts/faults.sh [-rounds N] [-only TEXT] [-kills 1000] [-flips 200] [-soak 30m]
#        [-cluster 10m]
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p .cache/bin
go build -o .cache/bin/mcptrack-faults ./cmd/mcptrack
go build -o .cache/bin/faults ./scripts/faults
scripts/peers.sh
go build -modfile=scripts/tools.mod -o .cache/bin/ github.com/nats-io/nats-server/v2
exec .cache/bin/faults -mcptrack .cache/bin/mcptrack-faults "$@"
