#!/bin/bash
# Replicates between two pools with tools that others wrote for OpenZFS: syncoid, bzfs and pyznap. Those that are not in PATH are fetched
# into DIRECTORY (syncoid from Debian's package, the others from PyPI), or left out with a line that says so.
# usage: replication-tools.sh MILLPOND [DIRECTORY]        as root; DIRECTORY defaults to target/replication-tools
set -uo pipefail
[ $# -ge 1 ] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
millpond=$(realpath "$1"); tools=${2:-target/replication-tools}
[ "$(id -u)" = 0 ] && [ -e /dev/fuse ] || { echo "skipped: needs root and /dev/fuse"; exit 0; }
mkdir -p "$tools/bin"; tools=$(realpath "$tools")
for name in zfs zpool; do ln -sf "$millpond" "$tools/bin/$name"; done
export PATH="$tools/bin:$tools/syncoid/usr/sbin:$tools/python/bin:$PATH"
fetch() {
  command -v syncoid >/dev/null || (cd "$tools" && apt-get -qq download sanoid 2>/dev/null && dpkg -x sanoid_*.deb syncoid)
  command -v bzfs >/dev/null && command -v pyznap >/dev/null && return
  python3 -m venv "$tools/python" && "$tools/python/bin/pip" -q install bzfs pyznap
}
fetch || true
folder=$(mktemp -d); cd "$folder" || exit 1
export HOME=$folder XDG_RUNTIME_DIR=$folder MILLPOND_RUN=$folder/run
failed=0
end() {
  zpool destroy -f destination 2>/dev/null; zpool destroy -f source 2>/dev/null; rm -rf "$folder"
}
trap end EXIT
must() { "$@" > log 2>&1 || { echo "FAILED: $*"; tail -20 log; failed=1; }; }
# Datasets must have the same files, and the newest snapshots the same guids.
same() {
  zfs mount -a # some receive without mounting
  diff -r --no-dereference "mnt/$1" "mnt/$2" > difference 2>&1 || { echo "DIFFERENT: $1 $2"; head -5 difference; failed=1; }
  newest() { zfs list -Hp -t snapshot -d 1 -S createtxg -o guid "$1" | head -1; }
  [ "$(newest "$1")" = "$(newest "$2")" ] || { echo "OTHER SNAPSHOT: $1 $2"; failed=1; }
}
must zpool create --size 400M -O atime=off -R "$folder/mnt" source "$folder/source.img"
must zpool create --size 400M -O atime=off -R "$folder/mnt" destination "$folder/destination.img"
must zfs create source/a; must zfs create source/a/b
cp /bin/bash /etc/passwd mnt/source/a/; cp -r /etc/default mnt/source/a/b/

with_syncoid() {
  local sync="syncoid --no-privilege-elevation --quiet"
  must $sync -r source/a destination/s; same source/a destination/s
  sleep 1 # its snapshots are named by the second
  echo more >> mnt/source/a/b/log; must $sync -r source/a destination/s; same source/a destination/s
  zfs snapshot source/a@mark; must $sync --no-sync-snap --create-bookmark source/a destination/bookmarked
  zfs destroy source/a@mark; echo more >> mnt/source/a/log; zfs snapshot source/a@next
  must $sync --no-sync-snap source/a destination/bookmarked; cmp mnt/{source/a,destination/bookmarked}/log || failed=1
  head -c 40M /dev/urandom > mnt/source/a/big; zfs snapshot source/a@large
  token() { zfs get -H -o value receive_resume_token destination/bookmarked; }
  for patience in 1 2 4 6 9; do # on a busy machine it begins late
    timeout $patience $sync --no-sync-snap --target-bwlimit=4m source/a destination/bookmarked; sleep 1
    [ "$(token)" = - ] || break
  done
  [ "$(token)" != - ] || { echo "no resume token"; failed=1; }
  must $sync --no-sync-snap source/a destination/bookmarked; cmp mnt/{source/a,destination/bookmarked}/big || failed=1
  echo passphrase | zfs create -o encryption=on -o keyformat=passphrase source/secret; cp /etc/passwd mnt/source/secret/
  must $sync --sendoptions=w source/secret destination/secret
  echo passphrase | zfs load-key destination/secret; must zfs mount destination/secret; same source/secret destination/secret
  must zfs create -V 16M source/volume; must $sync source/volume destination/volume
  zfs clone source/a@next source/clone; must $sync -r source destination/all
  [ "$(zfs get -H -o value origin destination/all/clone)" = destination/all/a@next ] || { echo "the clone is none"; failed=1; }
}
with_bzfs() {
  local copy="bzfs --no-privilege-elevation --quiet source/a destination/z --recursive"
  zfs snapshot -r source/a@z1; must $copy --create-bookmarks=all; same source/a destination/z
  rm -f mnt/source/a/big; echo more >> mnt/source/a/b/log; zfs snapshot -r source/a@z2; must $copy; same source/a destination/z
  # It keeps what there is a bookmark of.
  zfs list -H -t bookmark -o name -r source/a | xargs -r -n 1 zfs destroy
  zfs destroy -r source/a@z1; must $copy --skip-replication --delete-dst-snapshots
  zfs list -H destination/z@z1 >/dev/null 2>&1 && { echo "a snapshot is still there"; failed=1; }
  must zfs create source/a/new; must $copy --create-src-snapshots --create-src-snapshots-plan "{'p':{'onsite':{'secondly':1,'hourly':2}}}"
  same source/a destination/z
  echo other > mnt/destination/z/other; echo more >> mnt/source/a/log; zfs snapshot -r source/a@z3; must $copy --force-rollback-to-latest-snapshot; same source/a destination/z
  must zfs destroy -r source/a/new; must $copy --skip-replication --delete-dst-datasets
  zfs list -H destination/z/new >/dev/null 2>&1 && { echo "a dataset is still there"; failed=1; }
}
with_pyznap() {
  printf '[source/a]\n  frequent = 2\n  hourly = 1\n  snap = yes\n  clean = yes\n  dest = destination/p\n' > pyznap.conf
  must zfs create destination/p
  must pyznap --config pyznap.conf snap --take; must pyznap --config pyznap.conf send; same source/a destination/p
  must pyznap --config pyznap.conf snap --clean; must pyznap --config pyznap.conf send; same source/a destination/p
}
for tool in syncoid bzfs pyznap; do
  command -v $tool >/dev/null || { echo "$tool: left out, it is not there"; continue; }
  before=$failed; failed=0; "with_$tool"
  [ $failed = 0 ] && echo "$tool: all as it should be"; failed=$((failed | before))
done
for pool in source destination; do
  must zpool scrub -w $pool
  zpool status $pool | grep -q 'repaired 0B .* with 0 errors' || { echo "$pool: the scrub found something"; failed=1; }
done
exit $failed
