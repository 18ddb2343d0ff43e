#!/bin/bash
# Replicates between two pools with tools that others wrote for OpenZFS: syncoid, bzfs and pyznap. Those that are not in PATH are fetched
# into DIRECTORY (syncoid from Debian's package, the others from PyPI), or left out with a line that says so.
# usage: replication-tools.sh MILLPOND [DIRECTORY]        as root; DIRECTORY defaults to target/replication-tools
set -uo pipefail
[ $# -ge 1 ] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
millpond=$(realpath "$1"); tools=$(realpath -m "${2:-target/replication-tools}"); scripts=$(realpath "$(dirname "$0")")
. "$scripts/replication-cases.sh"
[ "$(id -u)" = 0 ] && [ -e /dev/fuse ] || { echo "skipped: needs root and /dev/fuse"; exit 0; }
folder=$(mktemp -d); cd "$folder" || exit 1
end() { destroy_pools; rm -rf --one-file-system "$folder"; }
trap end EXIT
export HOME=$folder XDG_RUNTIME_DIR=$folder MILLPOND_RUN=$folder/run
make_millponds_side "$folder/millpond"
here=$folder/millpond; side=([source]=$here [destination]=$here)
fetch_tools "$tools" || true
replicate ''
echo "failed=$failed"
exit $((failed > 100 ? 100 : failed))
