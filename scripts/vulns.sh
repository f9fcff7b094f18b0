#!/usr/bin/env bash
# Checks the code that is called for known vulnerabilities, with govulncheck.
# usage: scripts/vulns.sh [DIR]     (DIR, or MCPTRACK_VULNDB: an offline copy of the database)
# An offline copy is the unpacked https://vuln.go.dev/vulndb.zip.
# Exits 0: none found, 1: found or failed, 4: the database could not be reached.
set -euo pipefail
db=${1-${MCPTRACK_VULNDB-}}
[[ -z $db ]] || db=$(cd "$db" && pwd)
cd "$(dirname "$0")/.."

# Without the database, govulncheck need not be built.
if [[ -z $db$(go env GOVULNDB 2>/dev/null) ]] && command -v curl >/dev/null &&
	! curl -fsS --max-time 60 --retry 2 -o /dev/null https://vuln.go.dev/index/db.json; then
	echo 'the vulnerability database could not be reached'
	exit 4
fi
mkdir -p .cache/bin
go build -modfile=scripts/tools.mod -o .cache/bin/ golang.org/x/vuln/cmd/govulncheck
args=()
if [[ -n $db ]]; then
	[[ -s $db/index/modules.json ]] || {
		echo "$db is no copy of the database: it lacks index/modules.json"
		exit 1
	}
	args=(-db "file://$db")
fi
rc=0
out=$(.cache/bin/govulncheck "${args[@]}" ./... 2>&1) || rc=$?
((rc == 0)) && exit
printf '%s\n' "$out"
# govulncheck exits with 3 if it found some.
if ((rc != 3)) && [[ -z $db ]] && grep -qiE 'fetching vulnerabilities|lookup |dial tcp|connection refused|http (get|status)|unexpected status|timeout' <<<"$out"; then
	echo 'the vulnerability database could not be reached'
	exit 4
fi
exit 1
