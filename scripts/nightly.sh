#!/usr/bin/env bash
# Lists, watches and stops published servers from npm, and checks that they leave nothing behind.
# Kills daemons, sessions and servers 300 times, and lets 50 sessions call 200 times each. Takes some
# minutes, and 500 MB in testdata/nightly/node_modules.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/peers.sh
(cd testdata/nightly && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
export MCPTRACK_NIGHTLY=1
MCPTRACK_KILLS=100 go test ./cmd/mcptrack -run 'TestKillStorm|TestManyClientsShareADaemon' -count=3 -v -timeout 20m
go test ./cmd/mcptrack -run TestPublishedServers -count=1 -v -timeout 20m "$@"
