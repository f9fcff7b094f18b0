#!/usr/bin/env bash
# A process that delivers webhooks is killed (SIGKILL) again and again while endpoints fail
# now and then and are down for some seconds: every event is delivered, or a gap is sent.
#
# usage: webhook-kills.sh [ROUNDS [EVENTS [SECONDS]]]      (default: 20 10000 30)
set -euo pipefail
cd "$(dirname "$0")/.."
MCPTRACK_KILLS=${1:-20} MCPTRACK_EVENTS=${2:-10000} MCPTRACK_DOWN_SECONDS=${3:-30} \
	go test ./output/webhook -run '^TestKilledWhileDelivering$' -count=1 -v -timeout 30m
