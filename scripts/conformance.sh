#!/usr/bin/env bash
# Runs the official conformance suite for servers against reference servers, directly and
# through `mcptrack gateway`, for each protocol version, and fails if a scenario that
# passes directly is lost on the way.
#
# usage: conformance.sh [VERSION|tasks…]    (default: 2025-06-18 2025-11-25 2026-07-28 tasks)
#
# The reference of a version is the server of the Go SDK; that of tasks, the extension of
# 2026-07-28, is testdata/peers/tasks.mjs on the TypeScript SDK v2. Needs npm and the Go
# toolchain. The suite and its Node come from testdata/conformance, the references from
# scripts/peers.sh. Reports stay in .cache/conformance.
set -euo pipefail
cd "$(dirname "$0")/.."
versions=("$@")
((${#versions[@]})) || versions=(2025-06-18 2025-11-25 2026-07-28 tasks)

scripts/peers.sh
dir=testdata/conformance
if [[ ! -e $dir/node_modules/@modelcontextprotocol/conformance ]]; then
	(cd $dir && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
fi
node=$(compgen -G "$dir/node_modules/node-linux-*/bin/node" | head -1)
out=.cache/conformance
rm -rf $out && mkdir -p $out
go build -o $out/mcptrack ./cmd/mcptrack

pids=()
stop() {
	((${#pids[@]})) && kill "${pids[@]}" 2>/dev/null && wait "${pids[@]}" 2>/dev/null
	pids=()
	return 0
}
trap stop EXIT

# Waits until something listens on a port.
listens() {
	for _ in {1..100}; do
		(: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
		sleep 0.1
	done
	echo "conformance.sh: nothing listens on port $1" >&2
	return 1
}

# Runs the suite for a version at a URL and writes "SCENARIO ok|failed" lines.
suite() { # VERSION URL NAME
	if [[ $1 == tasks ]]; then
		extension "$2" "$3"
		return
	fi
	"$node" $dir/node_modules/@modelcontextprotocol/conformance/dist/index.js server --url "$2" \
		--suite all --spec-version "$1" -o "$out/$1-$3" >"$out/$1-$3.log" 2>&1 || true
	sed -nE 's/^[✓✗] ([a-z0-9-]+): ([0-9]+) passed, ([0-9]+) failed.*/\1 \2 \3/p' "$out/$1-$3.log" |
		awk '{print $1, ($3 == 0 && $2 > 0 ? "ok" : "failed")}' | sort >"$out/$1-$3.txt"
}

# The suite runs no scenarios of extensions by itself.
extension() { # URL NAME
	local suite=$dir/node_modules/@modelcontextprotocol/conformance/dist/index.js scenario
	for scenario in $("$node" "$suite" list --server | sed -nE 's/^ *- (tasks-[a-z-]+) \[extension\]$/\1/p'); do
		if timeout 90 "$node" "$suite" server --url "$1" --scenario "$scenario" --spec-version 2026-07-28 --force \
			>"$out/tasks-$2-$scenario.log" 2>&1 && grep -qE '^Passed: [1-9][0-9]*/[0-9]+, 0 failed' "$out/tasks-$2-$scenario.log"; then
			echo "$scenario ok"
		else
			echo "$scenario failed"
		fi
	done | sort >"$out/tasks-$2.txt"
}

# Starts the reference of a version on a port, in the background.
reference() { # VERSION PORT
	if [[ $1 == tasks ]]; then
		"$node" testdata/peers/tasks.mjs --http="$2" &
	else
		local stateless=false
		[[ $1 < 2026 ]] || stateless=true
		.cache/bin/everything-server -http "127.0.0.1:$2" -stateless=$stateless &
	fi
}

lost=0
port=18800
for version in "${versions[@]}"; do
	server=$((port++)) gateway=$((port++))
	reference "$version" $server >"$out/$version-server.log" 2>&1
	pids+=($!)
	listens $server
	cat >"$out/$version.json" <<-JSON
		{"mcpServers": {"everything": {"type": "http", "url": "http://127.0.0.1:$server/", "trackResources": true}}}
	JSON
	$out/mcptrack gateway --config "$out/$version.json" --addr 127.0.0.1:$gateway >"$out/$version-gateway.log" 2>&1 &
	pids+=($!)
	listens $gateway
	suite "$version" "http://127.0.0.1:$server/" direct
	suite "$version" "http://127.0.0.1:$gateway/mcp" gateway
	stop
	direct=$(grep -c ' ok$' "$out/$version-direct.txt" || true)
	through=$(grep -c ' ok$' "$out/$version-gateway.txt" || true)
	missing=$(comm -23 <(grep ' ok$' "$out/$version-direct.txt") <(grep ' ok$' "$out/$version-gateway.txt") | cut -d' ' -f1)
	printf '%s: %s scenarios pass directly, %s through the gateway\n' "$version" "$direct" "$through"
	((direct > 0)) || { echo "conformance.sh: the suite did not run; see $out/$version-direct.log" >&2; exit 1; }
	if [[ -n $missing ]]; then
		lost=1
		while read -r s; do echo "  lost: $s"; done <<<"$missing"
	fi
done
exit $lost
