#!/usr/bin/env bash
# A process that delivers webhooks is killed (SIGKILL) again and again while endpoints fail
# now and then and are down for some seconds: every event is delivered, or a gap is sent.
# Then the same on a cluster: of three gateways the one that delivers is killed ROUNDS/4
# times, and then the NATS server that leads the log.
#
# usage: webhook-kills.sh [ROUNDS [EVENTS [SECONDS]]]      (default: 20 10000 30)
set -euo pipefail
cd "$(dirname "$0")/.."
MCPTRACK_KILLS=${1:-20} MCPTRACK_EVENTS=${2:-10000} MCPTRACK_DOWN_SECONDS=${3:-30} \
	go test ./output/webhook -run '^TestKilledWhileDelivering$' -count=1 -v -timeout 30m
MCPTRACK_KILLS=$((${1:-20} / 4)) MCPTRACK_EVENTS=${2:-10000} \
	go test ./cmd/mcptrack -run '^TestWebhooksOnACluster$' -count=1 -v -timeout 30m
