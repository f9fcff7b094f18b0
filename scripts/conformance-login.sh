#!/usr/bin/env bash
# Runs the authorization scenarios of the official conformance suite for clients against
# `mcptrack login`, `list` and `call`, and fails if one that applies does not pass.
#
# usage: conformance-login.sh [SCENARIO…]          (default: all, such as auth/scope-step-up)
#
# Needs npm and the Go toolchain. The suite and its Node come from testdata/conformance,
# whose client.mjs is the user. Reports stay in .cache/conformance-login.
set -euo pipefail
cd "$(dirname "$0")/.."

# Scenarios of extensions that mcptrack does not support, and why.
declare -A skip=(
	[auth/enterprise-managed-authorization]="tokens of an identity provider of the enterprise are exchanged (extension); there is no such provider in the config"
	[auth/dpop]="tokens bound to a key (extension); the servers known to want OAuth give bearer tokens"
	[auth/dpop-nonce]="as auth/dpop"
	[auth/wif-jwt-bearer]="a workload's own token is exchanged (extension); client_credentials serves machines"
)

scripts/peers.sh conformance
dir=$PWD/testdata/conformance
node=$(compgen -G "$dir/node_modules/node-linux-*/bin/node" | head -1)
suite=$dir/node_modules/@modelcontextprotocol/conformance/dist/index.js
out=.cache/conformance-login
rm -rf $out && mkdir -p $out
go build -o $out/mcptrack ./cmd/mcptrack
export MCPTRACK=$PWD/$out/mcptrack

scenarios=("$@")
((${#scenarios[@]})) || mapfile -t scenarios < <("$node" "$suite" list --client | grep -oE 'auth/[a-z0-9-]+' | sort -u)
((${#scenarios[@]})) || { echo "conformance-login.sh: the suite lists no scenarios" >&2; exit 1; }
passed=0 failed=0
for scenario in "${scenarios[@]}"; do
	if [[ -v skip[$scenario] ]]; then
		printf 'n/a   %s: %s\n' "$scenario" "${skip[$scenario]}"
		continue
	fi
	log=$out/${scenario//\//-}.log
	if "$node" "$suite" client --command "$node $dir/client.mjs" --scenario "$scenario" --timeout 300000 >"$log" 2>&1 &&
		grep -q 'OVERALL: PASSED' "$log"; then
		printf 'ok    %s: %s\n' "$scenario" "$(grep -o '^Passed: [0-9/]*' "$log")"
		((++passed))
	else
		printf 'FAIL  %s: see %s\n' "$scenario" "$log"
		((++failed))
	fi
done
printf '%d scenarios pass, %d fail\n' "$passed" "$failed"
((failed == 0 && passed > 0))
