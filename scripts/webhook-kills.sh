#!/usr/bin/env bash
# Kills (SIGKILL) a process that delivers webhooks repeatedly, while endpoints sometimes fail and are
# down for some seconds. Every event must be delivered, or a gap sent. Then it does the same on a
# cluster of three gateways: it kills the delivering gateway ROUNDS/4 times, and then the NATS
# server that leads the log.
#
# usage: webhook-kills.sh [ROUNDS [EVENTS [SECONDS]]]      (default: 20 10000 30)
set -euo pipefail
cd "$(dirname "$0")/.."
MCPTRACK_KILLS=${1:-20} MCPTRACK_EVENTS=${2:-10000} MCPTRACK_DOWN_SECONDS=${3:-30} \
	go test ./output/webhook -run '^TestKilledWhileDelivering$' -count=1 -v -timeout 30m
MCPTRACK_KILLS=$((${1:-20} / 4)) MCPTRACK_EVENTS=${2:-10000} \
	go test ./cmd/mcptrack -run '^TestWebhooksOnACluster$' -count=1 -v -timeout 30m
