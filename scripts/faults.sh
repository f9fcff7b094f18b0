#!/usr/bin/env bash
# Lets servers, networks, logs and the tracker itself go wrong while resources change, with
# the real program, and compares what clients were sent with what was true. Prints a table
# and fails unless nothing was lost, stale, duplicated, hung or leaked.
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
