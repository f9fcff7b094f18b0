#!/usr/bin/env bash
# Calls a tool of each of three servers through `mcptrack gateway` with published clients,
# over both transports. Prints a table, and fails if a call fails.
#
# Clients: TypeScript SDK v1 and v2 (legacy, modern, auto), Inspector CLI, mcporter, mcp-go.
# Servers: server-everything (stdio, SDK v1), testdata/peers/tasks.mjs (stdio, SDK v2,
# 2026-07-28), the conformance server of the Go SDK (HTTP).
#
# Needs npm and the Go toolchain; installs testdata/peers and testdata/nightly.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/peers.sh
if [[ ! -e testdata/nightly/node_modules/mcporter ]]; then
	(cd testdata/nightly && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
fi
out=.cache/matrix
rm -rf $out && mkdir -p $out
go build -o $out/mcptrack ./cmd/mcptrack
go build -o $out/mcp-go ./scripts/matrix
peers=$PWD/testdata/peers
node=$peers/node_modules/.bin/node
[[ -e $node ]] || node=$(command -v node)
PATH=$(dirname "$node"):$PATH # for the programs that npm installs
mcptrack=$PWD/$out/mcptrack
server=18860 gateway=18861
url=http://127.0.0.1:$gateway/mcp

cat >$out/servers.json <<-JSON
	{"mcpServers": {
	  "everything": {"command": "$node", "args": ["$peers/node_modules/@modelcontextprotocol/server-everything/dist/index.js", "stdio"], "trackTools": true},
	  "tasks": {"command": "$node", "args": ["$peers/tasks.mjs"], "protocol": "modern", "trackTools": true},
	  "go": {"type": "http", "url": "http://127.0.0.1:$server/", "trackTools": true}}}
JSON
# A wrapper without flags, as the Inspector would parse them itself.
printf '#!/usr/bin/env bash\nexec "%s" gateway --stdio --config "%s"\n' "$mcptrack" "$PWD/$out/servers.json" >$out/gateway.sh
chmod +x $out/gateway.sh
through=("$PWD/$out/gateway.sh")

pids=()
trap '((${#pids[@]})) && kill "${pids[@]}" 2>/dev/null; wait' EXIT
listens() {
	for _ in {1..300}; do
		(: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
		sleep 0.1
	done
	echo "matrix.sh: nothing listens on port $1" >&2
	return 1
}
.cache/bin/everything-server -http 127.0.0.1:$server >$out/go.log 2>&1 &
pids+=($!)
listens $server
"$mcptrack" gateway --config $out/servers.json --addr 127.0.0.1:$gateway >$out/gateway.log 2>&1 &
pids+=($!)
listens $gateway

declare -A arguments=([everything_echo]='{"message":"hi"}' [tasks_greet]='{"name":"hi"}' [go_test_simple_text]='{}')
declare -A want=([everything_echo]='Echo: hi' [tasks_greet]='Hello, hi!' [go_test_simple_text]='simple text')
tools=(everything_echo tasks_greet go_test_simple_text)
all='{"everything_echo":{"message":"hi"},"tasks_greet":{"name":"hi"},"go_test_simple_text":{}}'

# call CLIENT TRANSPORT prints what the tools answered.
call() {
	local target=("$url") tool
	[[ $2 == http ]] || target=("${through[@]}")
	case $1 in
	v*) "$node" "$peers/matrix.mjs" "$1" "$all" "${target[@]}" ;;
	mcp-go) $out/mcp-go "$all" "${target[@]}" ;;
	inspector)
		for tool in "${tools[@]}"; do
			local given=()
			[[ $tool == go_* ]] || given=(--tool-arg "$([[ $tool == tasks_* ]] && echo name || echo message)=hi")
			"$peers/node_modules/.bin/mcp-inspector" --cli "${target[@]}" $([[ $2 == http ]] && echo --transport http) \
				--method tools/call --tool-name "$tool" "${given[@]}"
		done
		;;
	mcporter)
		for tool in "${tools[@]}"; do
			if [[ $2 == http ]]; then
				testdata/nightly/node_modules/.bin/mcporter call --http-url "$url" --allow-http "$tool" --args "${arguments[$tool]}"
			else
				testdata/nightly/node_modules/.bin/mcporter call --stdio "${through[*]}" "$tool" --args "${arguments[$tool]}"
			fi
		done
		;;
	esac
}

failed=0
printf '%-10s  %-9s  %-10s  %-5s  %-5s\n' CLIENT TRANSPORT everything tasks go
for client in v1 v2-legacy v2-modern v2-auto inspector mcporter mcp-go; do
	for transport in stdio http; do
		(call "$client" $transport >"$out/$client-$transport.txt" 2>"$out/$client-$transport.log") &
		wait $! || true
		row=()
		for tool in "${tools[@]}"; do
			if grep -qF "${want[$tool]}" "$out/$client-$transport.txt"; then
				row+=(ok)
			else
				row+=(failed) failed=1
			fi
		done
		printf '%-10s  %-9s  %-10s  %-5s  %-5s\n' "$client" "$transport" "${row[@]}"
	done
done
exit $failed
