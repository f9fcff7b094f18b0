#!/usr/bin/env bash
# Calls a tool of each of three servers through `mcptrack gateway` with published clients, over both transports.
# Prints a table, and fails if a call fails. The tests of core/mcpserver have clients of mcp-go and the Go SDK.
#
# Clients: TypeScript SDK v1 and v2 (legacy, modern, auto), Inspector CLI, mcporter.
# Servers: server-everything (stdio, SDK v1), testdata/peers/tasks.mjs (stdio, SDK v2,
# 2026-07-28), the conformance server of the Go SDK (HTTP).
#
# Needs npm and the Go toolchain; installs testdata/peers and testdata/nightly.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/peers.sh nightly
out=$PWD/.cache/matrix
rm -rf "$out" && mkdir -p "$out"
go build -o "$out/mcptrack" ./cmd/mcptrack
peers=$PWD/testdata/peers
node=$peers/node_modules/.bin/node
[[ -e $node ]] || node=$(command -v node)
PATH=$(dirname "$node"):$PATH # for the programs that npm installs
server=18860 gateway=18861
url=http://127.0.0.1:$gateway/mcp

cat >"$out/servers.json" <<-JSON
	{"mcpServers": {
	  "everything": {"command": "$node", "args": ["$peers/node_modules/@modelcontextprotocol/server-everything/dist/index.js", "stdio"], "trackTools": true},
	  "tasks": {"command": "$node", "args": ["$peers/tasks.mjs"], "protocol": "modern", "trackTools": true},
	  "go": {"type": "http", "url": "http://127.0.0.1:$server/", "trackTools": true}}}
JSON
# Without flags, as the Inspector would parse them itself.
printf '#!/usr/bin/env bash\nexec "%s" gateway --stdio --config "%s"\n' "$out/mcptrack" "$out/servers.json" >"$out/gateway.sh"
chmod +x "$out/gateway.sh"

pids=()
trap '((${#pids[@]})) && kill "${pids[@]}" 2>/dev/null; wait' EXIT
# Starts a program, and waits until it listens on a port.
start() { # PORT COMMAND...
	"${@:2}" >"$out/$1.log" 2>&1 &
	pids+=($!)
	for _ in {1..600}; do
		(: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
		sleep 0.1
	done
	echo "matrix.sh: nothing listens on port $1" >&2
	return 1
}
start $server .cache/bin/everything-server -http 127.0.0.1:$server
start $gateway "$out/mcptrack" gateway --config "$out/servers.json" --addr 127.0.0.1:$gateway

declare -A arguments=([everything_echo]='{"message":"hi"}' [tasks_greet]='{"name":"hi"}' [go_test_simple_text]='{}')
declare -A want=([everything_echo]='Echo: hi' [tasks_greet]='Hello, hi!' [go_test_simple_text]='simple text')
tools=(everything_echo tasks_greet go_test_simple_text)
all='{"everything_echo":{"message":"hi"},"tasks_greet":{"name":"hi"},"go_test_simple_text":{}}'

# Prints what the tools answered.
call() { # CLIENT TRANSPORT
	local target=$url tool flags
	[[ $2 == http ]] || target=$out/gateway.sh
	case $1 in
	v*) "$node" "$peers/matrix.mjs" "$1" "$all" "$target" ;;
	inspector)
		for tool in "${tools[@]}"; do
			flags=()
			[[ $2 != http ]] || flags=(--transport http)
			[[ $tool == go_* ]] || flags+=(--tool-arg "$(tr -d '{"}' <<<"${arguments[$tool]}" | tr : =)")
			"$peers/node_modules/.bin/mcp-inspector" --cli "$target" --method tools/call --tool-name "$tool" "${flags[@]}"
		done
		;;
	mcporter)
		flags=(--stdio "$target")
		[[ $2 != http ]] || flags=(--http-url "$target" --allow-http)
		for tool in "${tools[@]}"; do testdata/nightly/node_modules/.bin/mcporter call "${flags[@]}" "$tool" --args "${arguments[$tool]}"; done
		;;
	esac
}

failed=0
printf '%-10s  %-9s  %-10s  %-5s  %-5s\n' CLIENT TRANSPORT everything tasks go
for client in v1 v2-legacy v2-modern v2-auto inspector mcporter; do
	for transport in stdio http; do
		call "$client" $transport >"$out/$client-$transport.txt" 2>"$out/$client-$transport.log" || true
		row=()
		for tool in "${tools[@]}"; do
			if grep -qF "${want[$tool]}" "$out/$client-$transport.txt"; then row+=(ok); else row+=(failed) failed=1; fi
		done
		printf '%-10s  %-9s  %-10s  %-5s  %-5s\n' "$client" "$transport" "${row[@]}"
	done
done
exit $failed
