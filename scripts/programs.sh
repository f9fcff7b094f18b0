#!/usr/bin/env bash
# Installs what the tests with real programs need, whose names begin with TestReal, as far as it can: Debian's
# packages as root, the peers of scripts/peers.sh, and nats-server. It prints what is still missing, a line for each.
set -euo pipefail
cd "$(dirname "$0")/.."
missing=()
for name in git jq vim curl chromium fish zsh tmux prometheus shellcheck; do command -v "$name" >/dev/null || missing+=("$name"); done
[[ -e /usr/share/bash-completion/bash_completion ]] || missing+=(bash-completion)
command -v gnome-keyring-daemon >/dev/null || missing+=(gnome-keyring)
command -v secret-tool >/dev/null || missing+=(libsecret-tools)
command -v dbus-run-session >/dev/null || missing+=(dbus-daemon)
if ((${#missing[@]})) && command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
	apt-get update -qq >&2 && apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 && missing=()
fi
bash scripts/peers.sh >&2 || missing+=('npm peers')
go tool -modfile=scripts/tools.mod -n nats-server >/dev/null || missing+=(nats-server)
((${#missing[@]} == 0)) || printf '%s\n' "${missing[@]}"
