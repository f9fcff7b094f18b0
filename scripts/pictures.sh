#!/usr/bin/env bash
# Makes the pictures of the README: dashboard-light.png, dashboard-dark.png, terminal-light.png and
# terminal-dark.png. They show a folder of notes that somebody edits, a server whose tools change, and a server
# that fails. It takes a minute, and needs Debian's chromium, tmux, aha and pngquant.
# usage: scripts/pictures.sh [DIR]
# DIR is where they are written, .github by default.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "${1:-.github}" .cache/bin
dir=$(cd "${1:-.github}" && pwd)
go build -o .cache/bin/ ./cmd/mcptrack ./scripts/pictures
program=$PWD/.cache/bin/mcptrack
tmp=$(mktemp -d)
serving=
trap '[[ -z $serving ]] || kill "$serving"; wait; tmux -S "$tmp/tmux" kill-server 2>/dev/null || true; rm -rf "$tmp"' EXIT
notes=$tmp/handbook
mkdir -p "$notes/incidents"

deploying() { # WHEN MINUTES [LINE]
	# shellcheck disable=SC2016 # Markdown
	printf '# Deploying\n\nAsk in #releases first.\n\n* Deploy with `make release`, %s\n* Wait %s minutes for the checks\n%s* Roll back with `make rollback`\n' \
		"$1" "$2" "${3-}" >"$notes/deploy.md"
}

# Writes the notes and the config.
scene() {
	deploying 'any day' 5
	printf '# On call\n\nThe rota changes on Mondays at 10:00.\n\n* Page the second after 10 minutes\n' >"$notes/on-call.md"
	printf '# Review\n\n* Two approvals for changes of the schema\n* One for everything else\n' >"$notes/review.md"
	printf '# Style\n\n* Subject, verb, object\n* No jokes in error messages\n' >"$notes/style.md"
	printf '# 20 November: slow search\n\nStatus: open\n' >"$notes/incidents/2026-11-20.md"
	rm -f "$notes/incidents/2026-11-24.md"
	cat >"$tmp/mcp-servers.json" <<-END
		{"mcpServers": {
		  "handbook": {"command": "$program", "args": ["vault", "--stdio", "$notes"], "trackResources": true, "include": ["vault://note/**"]},
		  "support": {"command": "$program", "args": ["demo-server"], "trackTools": true,
		    "onConnect": [{"tool": "set_interval", "arguments": {"milliseconds": 1500}}]},
		  "tickets": {"command": "sh", "args": ["-c", "echo 'fatal: the licence key has expired' >&2; exit 3"], "trackResources": true}}}
	END
}

# Waits until a command prints a text.
shows() { # TEXT COMMAND...
	local text=$1 i
	shift
	for ((i = 0; i < 600; i++)); do
		if "$@" 2>/dev/null | grep -qF "$text"; then return; fi
		sleep 0.1
	done
	echo "pictures.sh: waited for a minute for \"$text\"" >&2
	return 1
}

# Waits, so that two edits are not merged.
pause() { sleep 2.5; }

picture() { # NAME URL TEXT WIDTH HEIGHT
	local scheme
	.cache/bin/pictures "$2" "$3" "$4" "$5" "$tmp/$1"
	for scheme in light dark; do pngquant --force --output "$dir/$1-$scheme.png" 256 "$tmp/$1-$scheme.png"; done
}

scene
"$program" --config "$tmp/mcp-servers.json" serve-sse --addr 127.0.0.1:0 --data-dir "$tmp/data" 2>"$tmp/log" &
serving=$!
shows 'listening on ' cat "$tmp/log"
url=$(sed -n 's/.*listening on //p' "$tmp/log")
shows deploy.md curl -s "$url/api/servers/handbook/resources"
pause && deploying 'any day' 12
pause && printf '# 20 November: slow search\n\nStatus: closed, an index was missing\n' >"$notes/incidents/2026-11-20.md"
pause && printf '# 24 November: mail is late\n\nStatus: open\n' >"$notes/incidents/2026-11-24.md"
pause && printf '# On call\n\nThe rota changes on Mondays at 9:00.\n\n* Page the second after 5 minutes\n' >"$notes/on-call.md"
pause && deploying 'never on Fridays' 12 $'* Watch the error rate for an hour\n'
pause
picture dashboard "$url/?server=handbook&uri=vault://note/deploy.md" 'never on Fridays' 1200 780

scene
screen() { tmux -S "$tmp/tmux" capture-pane -p -e | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'; } # without empty lines at the end
# shellcheck disable=SC2016 # for the shell in the terminal
tmux -S "$tmp/tmux" -f /dev/null new-session -d -x 96 -y 30 sh -c 'printf "\033[1m$ mcptrack watch --diff\033[0m\n"; exec "$1" --config "$2" watch --diff' \
	sh "$program" "$tmp/mcp-servers.json"
shows '5 resources' screen
pause && deploying 'never on Fridays' 12 $'* Watch the error rate for an hour\n'
shows Fridays screen
shows count_words screen
screen >"$tmp/screen"
{
	cat <<-'END'
		<meta charset="utf-8"><style>
		:root { color-scheme: light dark; }
		body { margin: 0; background: light-dark(#fff, #16181d); color: light-dark(#1d2129, #d8dbe2); }
		pre { margin: 0; padding: 18px 22px; font: 14px/20px "DejaVu Sans Mono", monospace; }
		.bold { font-weight: bold; } .dimgray, .faint { color: light-dark(#68707e, #868c98); }
		.red { color: light-dark(#c4231c, #ff6b68); } .green { color: light-dark(#177a3a, #7bd88f); }
		.yellow { color: light-dark(#8a6100, #f7c948); } .blue { color: light-dark(#1a5fb4, #6cb2ff); }
		.purple { color: light-dark(#8b3fb5, #d68cff); } .cyan { color: light-dark(#0a7280, #5fd7d7); }
		</style><pre>
	END
	aha --no-header --stylesheet <"$tmp/screen"
	echo '</pre>'
} >"$tmp/terminal.html"
picture terminal "file://$tmp/terminal.html" count_words 860 $((20 * $(wc -l <"$tmp/screen") + 36))
