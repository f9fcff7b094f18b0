#!/usr/bin/env bash
# Installs every kind of package that scripts/package.sh has built, runs what a user runs first, upgrades
# and removes it. Packages are installed in a copy of this system that lasts as long as the test: it
# needs root, Debian or Ubuntu, and overlayfs. Programs of other systems are only looked at. There is no
# apk for Debian, so the apk package is unpacked.
# usage: scripts/install-test.sh [DIR [KIND...]]
# DIR is .cache/dist by default. KIND is archive, foreign, manifests, sbom, units, deb, rpm, apk, image,
# npm or equal, by default all of them. deb, rpm and equal build the release again; npm needs npm.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(cd "${1:-.cache/dist}" && pwd)
shift || true
(($#)) || set -- archive foreign manifests sbom units deb rpm apk image npm equal
version=$(jq -r .tag "$dir/metadata.json")
case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
*)
	echo "no package is for $(uname -m)" >&2
	exit 1
	;;
esac
tmp=$(mktemp -d)
root=
finish() {
	local rc=$?
	[[ -z $system ]] || kill -KILL "$system"
	leave
	rm -rf "$tmp"
	((rc == 0)) || echo "install-test.sh: $kind failed" >&2
}
kind=start
trap finish EXIT

programs() {
	local missing=() pair # a function of this script has the name of a program, so type -P
	for pair in jq:jq rpm:rpm umoci:umoci runc:runc skopeo:skopeo unzip:unzip man:man-db fish:fish zsh:zsh systemd-analyze:systemd; do
		type -P "${pair%:*}" >/dev/null || missing+=("${pair#*:}")
	done
	[[ -e /usr/share/bash-completion/bash_completion ]] || missing+=(bash-completion)
	((${#missing[@]} == 0)) || { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; }
}

# Makes a copy of this system in $root. Its systemctl writes what it is asked to a file.
enter() {
	mkdir -p "$tmp/overlay"
	mount -t tmpfs -o size=2g tmpfs "$tmp/overlay"
	mkdir "$tmp/overlay/upper" "$tmp/overlay/work" "$tmp/overlay/root"
	mount -t overlay -o "lowerdir=/,upperdir=$tmp/overlay/upper,workdir=$tmp/overlay/work" overlay "$tmp/overlay/root"
	root=$tmp/overlay/root
	mount -t proc proc "$root/proc"
	mount -t tmpfs tmpfs "$root/run"
	mount -t tmpfs tmpfs "$root/tmp"
	mount --bind /dev "$root/dev"
	mkdir -p "$root/run/systemd/system" "$root/tmp/home"
	rm -f "$root"/etc/dpkg/dpkg.cfg.d/* # images of containers leave man pages out
	rm -f "$root"/usr/local/bin/mcptrack*
	# shellcheck disable=SC2016 # for the copy
	printf '#!/bin/sh\necho "$@" >>/run/asked\n' >"$tmp/systemctl"
	install -m 755 "$tmp/systemctl" "$root/usr/bin/systemctl"
	cp "$dir/mcptrack_linux_$arch."* "$root/tmp/"
}

leave() {
	[[ -n $root ]] || return 0
	umount "$root/dev" "$root/tmp" "$root/run" "$root/proc" "$root" "$tmp/overlay"
	root=
}

# Runs a command in the copy.
inside() {
	chroot "$root" /usr/bin/env -i HOME=/tmp/home PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin LC_ALL=C.UTF-8 TERM=dumb "$@"
}

# Fails unless two texts are equal.
same() {
	[[ $1 == "$2" ]] || { printf '%s: got %s, want %s\n' "$3" "$1" "$2" && return 1; }
}

# Runs what a user runs first, with a command that runs programs where they are installed.
works() {
	local out
	same "$("$@" mcptrack version -o name)" "$want" version
	same "$("$@" mcptrack-attach --version)" "mcptrack $want" 'version of mcptrack-attach'
	out=$("$@" mcptrack watch --demo --count 3 --json)
	(($(jq -r .type <<<"$out" | wc -l) >= 3)) || { echo "watch --demo --count 3: $out" && return 1; }
	out=$("$@" mcptrack __complete wat 2>/dev/null)
	[[ $out == watch* ]] || { echo "completion of wat: $out" && return 1; }
	echo "$kind: $want works"
}

# Fails unless shells and man find what a package installs.
integrated() {
	# shellcheck disable=SC2016 # for the copy
	inside bash -c '. /usr/share/bash-completion/bash_completion
		if declare -F _comp_load >/dev/null; then _comp_load mcptrack; else __load_completion mcptrack; fi
		complete -p mcptrack' | grep -q __start_mcptrack
	# shellcheck disable=SC2016 # for the copy
	same "$(inside zsh -fc "fpath=($1 \$fpath); "'autoload -Uz compinit && compinit -D -u && print $_comps[mcptrack]')" _mcptrack 'completion of zsh'
	inside fish -c 'complete -C "mcptrack wat"' | grep -q '^watch'
	inside man -P cat mcptrack-watch | grep -q 'mcptrack watch'
	inside man -P cat 7 mcptrack-events >/dev/null
}

# asked fails unless the scripts of the package asked systemctl for this since the last time.
asked() {
	same "$(cat "$root/run/asked" 2>/dev/null || true)" "$1" 'calls of systemctl'
	rm -f "$root/run/asked"
}

# The release that comes next, for upgrades.
next=v0.999.0
newer() {
	[[ -e $tmp/next ]] || bash scripts/package.sh "$tmp/next" "$next" >"$tmp/next.log" 2>&1 || { cat "$tmp/next.log" && return 1; }
}

gone() {
	local file
	while read -r file; do
		[[ -d $root$file || ! -e $root$file ]] || { echo "$file is still there" && return 1; }
	done <"$tmp/files"
	[[ ! -e $root/usr/bin/mcptrack ]]
}

installed=$'daemon-reload\ntry-restart mcptrack-feed.service mcptrack-gateway.service'
removed='disable --now mcptrack-feed.service mcptrack-gateway.service'

# Installs a package, the next one over it, and removes it.
package() { # EXTENSION ZSH-FOLDER INSTALL UPGRADE LIST REMOVE
	local words=()
	newer
	enter
	cp "$tmp/next/mcptrack_linux_$arch.$1" "$root/tmp/next.$1"
	read -ra words <<<"$3"
	inside "${words[@]}" "/tmp/mcptrack_linux_$arch.$1" >/dev/null
	asked "$installed"
	works inside
	integrated "$2"
	inside systemd-analyze verify --man=no /usr/lib/systemd/system/mcptrack-{feed,gateway}.service
	read -ra words <<<"$4"
	inside "${words[@]}" "/tmp/next.$1" >/dev/null
	asked "$installed"
	want=$next works inside
	read -ra words <<<"$5"
	inside "${words[@]}" mcptrack >"$tmp/files"
	read -ra words <<<"$6"
	inside "${words[@]}" mcptrack >/dev/null
	asked "$removed"
	gone
	leave
}

deb() { package deb '' 'dpkg -i' 'dpkg -i' 'dpkg -L' 'dpkg -P'; }

# Debian's packages are not in the database of rpm, so dependencies are not checked.
rpm() {
	local rpm='rpm --dbpath /var/lib/rpm-test'
	command rpm -K --nosignature "$dir/mcptrack_linux_$arch.rpm" | grep -q 'digests OK'
	package rpm /usr/share/zsh/site-functions "$rpm --nodeps -i" "$rpm --nodeps -U" "$rpm -ql" "$rpm --nodeps -e"
}

apk() {
	enter
	tar -xzf "$dir/mcptrack_linux_$arch.apk" -C "$root" 2>/dev/null
	grep -q '^pkgname = mcptrack$' "$root/.PKGINFO"
	grep -q "^arch = $(uname -m)\$" "$root/.PKGINFO"
	grep -q '^datahash = [0-9a-f]\{64\}$' "$root/.PKGINFO"
	works inside
	integrated /usr/share/zsh/site-functions
	leave
}

archive() {
	(cd "$dir" && sha256sum --quiet -c checksums.txt)
	unpack "$dir/mcptrack_linux_$arch.tar.gz" "$tmp/archive"
	works env "PATH=$tmp/archive:$PATH" HOME="$tmp"
	man -P cat -l "$tmp/archive/man/mcptrack-watch.1" >/dev/null
	(
		cd "$tmp/archive"
		[[ -s README.md && -s completions/_mcptrack && -s services/mcptrack-feed.service ]]
	)
}

# The programs of all systems say what they were built from.
foreign() {
	local name os to wanted build exe
	for name in "$dir"/mcptrack_*_*.{tar.gz,zip}; do
		to=$tmp/foreign/${name##*/}
		os=${name##*/mcptrack_} && os=${os%%.*}
		unpack "$name" "$to"
		exe=
		[[ $os != windows* ]] || exe=.exe
		for build in "$to/mcptrack$exe" "$to/mcptrack-attach$exe"; do
			go version -m "$build" >"$tmp/build"
			for wanted in "GOOS=${os%_*}" "GOARCH=${os#*_}" CGO_ENABLED=0 -trimpath=true vcs.modified=false "vcs.revision=$(jq -r .commit "$dir/metadata.json")"; do
				grep -q -- "build	$wanted\$" "$tmp/build" || { echo "$build: no $wanted" && return 1; }
			done
			grep -q "mod	github.com/mcptrack/mcptrack	$version" "$tmp/build" || { cat "$tmp/build" && return 1; }
		done
		[[ $os != darwin* ]] || python3 -c 'import plistlib, sys; plistlib.load(open(sys.argv[1], "rb"))["ProgramArguments"]' "$to"/services/*.plist
	done
}

# Unpacks what is in the folder of an archive.
unpack() {
	mkdir -p "$2"
	if [[ $1 == *.zip ]]; then
		unzip -q "$1" -d "$2"
		mv "$2"/mcptrack-release/* "$2"
	else
		tar -xzf "$1" -C "$2" --strip-components=1
	fi
}

# Manifests name the files of this release.
manifests() {
	local file sum n=0
	for file in "$dir"/homebrew/Casks/mcptrack.rb "$dir"/scoop/mcptrack.json "$dir"/winget/manifests/*/*/*/*/*.installer.yaml; do
		while read -r sum; do
			grep -q "^$sum " "$dir/checksums.txt" || { echo "$file: $sum is the checksum of no file" && return 1; }
			n=$((n + 1))
		done < <(grep -oiE '\b[0-9a-f]{64}\b' "$file")
	done
	same "$n" 8 'checksums in manifests'
}

# The SBOM of a program has its modules, and no others.
sbom() {
	local archive name to exe program
	for archive in "$dir"/mcptrack_*_*.{tar.gz,zip}; do
		to=$tmp/sbom/${archive##*/} exe=
		[[ $archive != *.zip ]] || exe=.exe
		unpack "$archive" "$to"
		name=${archive##*/mcptrack_} && name=${name%%.*}
		for program in mcptrack mcptrack-attach; do
			go version -m "$to/$program$exe" | awk '$1 == "dep" { print $2 "@" $3 }' | sort -u >"$tmp/modules"
			[[ -s $tmp/modules ]]
			jq -r '.components[] | select(.name != "std") | .name + "@" + .version' "$dir/${program}_$name.cdx.json" | sort -u | diff - "$tmp/modules"
		done
	done
}

# The units are hardened as promised, and run: by a systemd of their own, which starts nothing else. Their
# only server is the demo.
units() {
	local unit pid
	for unit in feed gateway; do
		systemd-analyze security --offline=true --threshold=20 ".github/packaging/linux/mcptrack-$unit.service" >"$tmp/security" || { cat "$tmp/security" && return 1; }
		tail -1 "$tmp/security"
	done
	enter
	inside dpkg -i "/tmp/mcptrack_linux_$arch.deb" >/dev/null
	cp /usr/bin/systemctl "$root/usr/bin/systemctl"
	rm -rf "$root"/{etc,usr/lib}/systemd/system/*.wants
	mkdir -p "$root/etc/mcptrack"
	cp .github/examples/monitoring/mcp-servers.json "$root/etc/mcptrack/"
	for unit in feed gateway; do (umask 077 && head -c 24 /dev/urandom | base64 >"$root/etc/mcptrack/$unit.token"); done
	# shellcheck disable=SC2016 # for the other shell
	unshare --mount --pid --ipc --uts --net --cgroup --fork bash -c '
		set -e
		mount --make-rprivate /
		mount --bind "$1" "$1"
		cd "$1"
		mount -t proc proc proc
		mount --rbind /dev dev
		mount -t sysfs sysfs sys
		mount -t cgroup2 cgroup2 sys/fs/cgroup
		mount -t tmpfs -o mode=755 tmpfs run
		mkdir -p old
		pivot_root . old
		umount -l old
		mount --make-rshared /
		container=test exec /lib/systemd/systemd --unit=basic.target' bash "$root" >"$tmp/systemd.log" 2>&1 &
	pid=$!
	for _ in {1..60}; do
		system=$(pgrep -P "$pid" -f /lib/systemd/systemd || true)
		[[ -n $system ]] && booted systemctl is-system-running >/dev/null 2>&1 && break
		sleep 1
	done
	booted systemctl start mcptrack-feed mcptrack-gateway
	for _ in {1..60}; do
		booted mcptrack status --token-file /etc/mcptrack/feed.token 2>/dev/null | grep -q '^demo *ready' && break
		sleep 1
	done
	booted mcptrack status --token-file /etc/mcptrack/feed.token
	booted systemctl is-active --quiet mcptrack-feed mcptrack-gateway
	booted systemctl stop mcptrack-feed mcptrack-gateway
	kill -KILL "$system"
	wait "$pid" || true
	system=
	leave
}

# Runs a command in the system that units has started.
system=
booted() {
	nsenter -t "$system" --mount --pid --ipc --uts --net --cgroup "$@"
}

# Runs the image as its user, with a read-only root, without capabilities and with no network.
image() {
	skopeo --override-arch "$arch" copy -q "oci:$dir/image:latest" "oci:$tmp/image:latest"
	same "$(jq -r '.manifests[0].digest' "$dir/image/index.json")" "$(<"$dir/image.digest")" 'digest of the image'
	umoci unpack --image "$tmp/image:latest" "$tmp/bundle" >/dev/null
	jq -e '.process.user.uid == 65532' "$tmp/bundle/config.json" >/dev/null
	jq '.root.readonly = true | .process.terminal = false | .process.noNewPrivileges = true | .process.capabilities = {}
		| .mounts += [{destination: "/var/lib/mcptrack", type: "tmpfs", source: "tmpfs", options: ["mode=1777"]}, {destination: "/tmp", type: "tmpfs", source: "tmpfs", options: ["mode=1777"]}]
		| .mounts |= map(select(.type != "cgroup"))' "$tmp/bundle/config.json" >"$tmp/config.json"
	works contained
	skopeo --override-arch arm64 inspect "oci:$dir/image:latest" | jq -e '.Architecture == "arm64" and .Labels["io.modelcontextprotocol.server.name"] != null' >/dev/null
	echo "image: $(du -sk "$dir/image" | cut -f1) KiB for two platforms"
}

contained() {
	local args
	args=$(printf '%s\n' "/usr/bin/$1" "${@:2}" | jq -R . | jq -cs .)
	jq --argjson args "$args" '.process.args = $args' "$tmp/config.json" >"$tmp/bundle/config.json"
	runc run --bundle "$tmp/bundle" "mcptrack-test-$$-$RANDOM"
}

npm() {
	bash scripts/npm-test.sh "$dir"
}

# A second build, in another folder, gives the same bytes.
equal() {
	[[ $(git rev-parse HEAD) == $(jq -r .commit "$dir/metadata.json") ]] || { echo "$dir was not built from HEAD" && return 1; }
	bash scripts/package.sh "$tmp/again" "$version" >"$tmp/again.log" 2>&1 || { cat "$tmp/again.log" && return 1; }
	diff -r --brief -x metadata.json -x config.yaml -x artifacts.json "$dir" "$tmp/again"
}

programs
for kind; do
	echo "== $kind"
	want=$version
	"$kind"
done
echo "$# kinds passed, 0 failed"
