#!/bin/sh
# Makes systemd know the unit, and restarts a service that runs after an upgrade. The service is not started by the installation, since it
# has no servers yet: "systemctl enable --now mcpgateway" does it.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
# Debian's second argument is the version before; RPM's first is the number of installed versions.
if [ "$1" = configure ] && [ -n "$2" ] || [ "$1" -gt 1 ] 2>/dev/null; then
	systemctl try-restart mcpgateway.service
fi
