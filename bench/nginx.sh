#!/bin/sh
# Makes nginx available to ./bench: does nothing if the machine has it, else unpacks Debian's package into .cache/nginx.
# The machine itself is not changed and no service is started.
set -eu
cd "$(dirname "$0")/.."

command -v nginx >/dev/null && exit 0
[ -x /usr/sbin/nginx ] && exit 0
[ -x .cache/nginx/usr/sbin/nginx ] && exit 0
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
	echo "bench/nginx.sh: nginx is needed, and this is not Debian: install nginx, or leave it out with -nginx=false" >&2
	exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! (cd "$work" && { apt-get -q download nginx || { apt-get -q update && apt-get -q download nginx; }; } && dpkg-deb -x nginx_*.deb nginx && nginx/usr/sbin/nginx -v) >"$work/log" 2>&1; then
	cat "$work/log" >&2
	echo "bench/nginx.sh: Debian's nginx cannot be downloaded: run \"apt-get update && apt-get install nginx\", or leave it out with -nginx=false" >&2
	exit 1
fi
mkdir -p .cache
rm -rf .cache/nginx
mv "$work/nginx" .cache/nginx
