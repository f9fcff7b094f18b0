#!/usr/bin/env bash
# Lets faults happen at random for half an hour, on servers of every transport and
# era, and compares what the tracker reported with what was true after each of them.
# Fails when anything was reported wrongly, when goroutines or descriptors grew, or
# when the load did not really flow.
# usage: scripts/soak.sh [-short]     (-short: two minutes)
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1-} in
'') time=30m ;;
-short | --short) time=2m ;;
*)
	echo "usage: scripts/soak.sh [-short]" >&2
	exit 2
	;;
esac
exec go test ./core/tracker -run '^TestSoak$' -count=1 -v -soak "$time" -timeout 45m
