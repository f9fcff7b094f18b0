#!/bin/sh
# After an installation or an upgrade: systemd reads the units, and restarts those that run.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl try-restart mcptrack-feed.service mcptrack-gateway.service
