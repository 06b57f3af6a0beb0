#!/bin/sh
# Install the Debian packages of packages.txt that are missing: all, or only those up to the heading "# test".
#   scripts/packages.sh build|test
set -eu
list=$(dirname "$0")/../packages.txt
case "${1-}" in
build) wanted=$(sed -n '/^# test$/q; /^#/d; p' "$list") ;;
test) wanted=$(sed '/^#/d' "$list") ;;
*) echo "usage: scripts/packages.sh build|test" >&2; exit 2 ;;
esac

missing=
for package in $wanted; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null 2>&1; then
    sudo=sudo
else
    echo "these Debian packages are missing; install them as root, then run make again:" >&2
    echo "    apt-get install$missing" >&2
    exit 1
fi
echo "installing Debian packages:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# The lists of a fresh image may be old or empty: refresh them only when the first try fails.
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 || {
    $sudo apt-get update -qq || echo "the package lists could not be refreshed (is there a network?)" >&2
    $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null || {
        echo "could not install:$missing" >&2
        exit 1
    }
}
