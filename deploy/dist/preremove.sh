#!/bin/sh
# Stops the service before its files go. An upgrade leaves it running.
set -e
[ -d /run/systemd/system ] || exit 0
if [ "$1" = remove ] || [ "$1" = 0 ]; then
	systemctl --no-reload disable --now mcpgateway.service
fi
