#!/usr/bin/env bash
# Makes the container image of a release for two platforms, without a container engine and without a network:
# the OCI layout DIR/image, from the archives in DIR. It is built from nothing: the programs, Debian's
# copy of Mozilla's root certificates, and folders. Equal archives give equal images. GoReleaser could make it only
# with a running Docker (kos, dockers_v2), so nothing could be tested before it is published.
# usage: scripts/image.sh DIR VERSION COMMIT      (SOURCE_DATE_EPOCH is the time of the commit)
# It prints the digest of the image.
set -euo pipefail
dir=${1:?} version=${2#v} commit=${3:?}
date=$(date -u -d "@${SOURCE_DATE_EPOCH:?}" +%FT%TZ)
image=$dir/image state=var/lib/mcptrack
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
umask 022
rm -rf "$image"
mkdir -p "$image/blobs/sha256"

digest() { sha256sum <"$1" | cut -d ' ' -f 1; }

# Stores what it reads, and prints the members of its descriptor.
blob() { # TYPE
	local file sum
	file=$(mktemp -p "$tmp")
	cat >"$file"
	sum=$(digest "$file")
	printf '"mediaType": "application/vnd.oci.image.%s", "digest": "sha256:%s", "size": %d' "$1" "$sum" "$(stat -c %s "$file")"
	install -m 644 "$file" "$image/blobs/sha256/$sum"
}

# The first is the name by which the MCP registry checks that the image and the entry belong together.
labels=$(
	cat <<-END
		"io.modelcontextprotocol.server.name": "io.github.mcptrack/mcptrack",
		"org.opencontainers.image.title": "mcptrack",
		"org.opencontainers.image.description": "Follows MCP servers and reports every change as it happens",
		"org.opencontainers.image.url": "https://github.com/mcptrack/mcptrack",
		"org.opencontainers.image.source": "https://github.com/mcptrack/mcptrack",
		"org.opencontainers.image.version": "$version",
		"org.opencontainers.image.revision": "$commit",
		"org.opencontainers.image.created": "$date"
	END
)
manifests=
for arch in amd64 arm64; do
	root=$tmp/$arch
	# Any user may run the image, with a new volume, too: engines give it the mode of this folder.
	mkdir -p "$root"/{etc/mcptrack,etc/ssl/certs,usr/bin,tmp,$state}
	chmod 1777 "$root/tmp" "$root/$state"
	tar -xzf "$dir/mcptrack_linux_$arch.tar.gz" -C "$root/usr/bin" --strip-components=1 mcptrack-release/mcptrack mcptrack-release/mcptrack-attach
	printf 'root:x:0:0:root:/:/sbin/nologin\nmcptrack:x:65532:65532:mcptrack:/%s:/sbin/nologin\n' $state >"$root/etc/passwd"
	printf 'root:x:0:\nmcptrack:x:65532:\n' >"$root/etc/group"
	cat /usr/share/ca-certificates/mozilla/*.crt >"$root/etc/ssl/certs/ca-certificates.crt"
	tar -C "$root" --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf "$tmp/layer.tar" etc tmp usr var
	layer=$(gzip -9n <"$tmp/layer.tar" | blob layer.v1.tar+gzip)
	# A config that is named needs no approval.
	config=$(
		blob config.v1+json <<-END
			{"created": "$date", "os": "linux", "architecture": "$arch",
			 "rootfs": {"type": "layers", "diff_ids": ["sha256:$(digest "$tmp/layer.tar")"]},
			 "history": [{"created": "$date", "created_by": "scripts/image.sh"}],
			 "config": {"User": "65532:65532", "Entrypoint": ["/usr/bin/mcptrack"], "Cmd": ["--help"], "WorkingDir": "/$state",
			  "Env": ["PATH=/usr/bin", "HOME=/$state", "MCPTRACK_CONFIG=/etc/mcptrack/mcp-servers.json"],
			  "Volumes": {"/$state": {}}, "Labels": {$labels}}}
		END
	)
	manifest=$(blob manifest.v1+json <<<"{\"schemaVersion\": 2, \"mediaType\": \"application/vnd.oci.image.manifest.v1+json\", \"config\": {$config}, \"layers\": [{$layer}]}")
	manifests+="${manifests:+, }{$manifest, \"platform\": {\"os\": \"linux\", \"architecture\": \"$arch\"}}"
done
index=$(blob index.v1+json <<<"{\"schemaVersion\": 2, \"mediaType\": \"application/vnd.oci.image.index.v1+json\", \"manifests\": [$manifests], \"annotations\": {$labels}}")
echo "{\"schemaVersion\": 2, \"manifests\": [{$index, \"annotations\": {\"org.opencontainers.image.ref.name\": \"latest\"}}]}" >"$image/index.json"
echo '{"imageLayoutVersion": "1.0.0"}' >"$image/oci-layout"
index=${index#*digest\": \"}
echo "${index%%\"*}"
