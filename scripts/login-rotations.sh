#!/usr/bin/env bash
# Many processes share one login while its tokens expire. The authorization server accepts each
# refresh token once. Then processes are killed while they renew the tokens.
#
# usage: login-rotations.sh [PROCESSES [ROTATIONS [KILLS]]]      (default: 50 100 200)
set -euo pipefail
cd "$(dirname "$0")/.."
LOGIN_PROCESSES=${1:-50} LOGIN_ROTATIONS=${2:-100} LOGIN_KILLS=${3:-200} \
	go test ./core/login -run '^(TestOneRenewalForAllProcesses|TestKilledProcesses)$' -count=1 -v -timeout 30m
