#!/usr/bin/env bash
# Injects random faults for half an hour, on servers of every transport and era, and compares the
# tracker's reports with the truth after each fault. Fails if a report was wrong, if goroutines or
# descriptors leaked, or if too little load passed.
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
