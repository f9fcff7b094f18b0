#!/bin/sh
# Before a removal; not before an upgrade. dpkg gives the word remove, rpm the number of versions that
# stay installed.
case $1 in
remove | 0) ;;
*) exit 0 ;;
esac
[ -d /run/systemd/system ] || exit 0
systemctl disable --now mcptrack-feed.service mcptrack-gateway.service || :
