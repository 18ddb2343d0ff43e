# Sourced by replication-tools.sh and replication-tools-with-openzfs.sh: what syncoid, bzfs and pyznap do between the pools `source` and `destination`.
# A side is a directory with a zfs and a zpool. `side[POOL]` is that with which a pool is used, `here` the one whose commands the tools run by themselves,
# and `at[POOL]` what they put before a pool's name to reach it over ssh: nothing if it is here. What is wrong is a line that begins with FAILED.
set -uo pipefail
declare -A side=() at=([source]="" [destination]="")
here='' failed=0
bad() { echo "FAILED: $*"; failed=$((failed + 1)); }
must() { "$@" > log 2>&1 || { bad "$*"; tail -20 log; }; }
of_source() { PATH=${side[source]}:$PATH "$@"; }
of_destination() { PATH=${side[destination]}:$PATH "$@"; }
tool() { PATH=$here:$PATH "$@"; }
# Makes DIRECTORY a side of what is found at two paths.
make_side() { mkdir -p "$1" && ln -sf "$2" "$1/zfs" && ln -sf "$3" "$1/zpool"; }
make_millponds_side() { make_side "$1" "$millpond" "$millpond" && ln -sf "$millpond" "$1/millpond"; }

# Those of the tools that are not in PATH are fetched into DIRECTORY (syncoid and its modules from Debian's packages, the others from PyPI), or left out
# with a line that says so. What is there already is not fetched again: it can be carried to a machine without network.
fetch_tools() { # DIRECTORY
  local name
  mkdir -p "$1"
  command -v syncoid > /dev/null || [ -e "$1/debian/usr/sbin/syncoid" ] ||
    (cd "$1" && apt-get -qq download sanoid libcapture-tiny-perl 2> /dev/null && for name in *.deb; do dpkg -x "$name" debian; done)
  [ -e "$1/python/bin/pyznap" ] || { command -v bzfs && command -v pyznap; } > /dev/null ||
    # pyznap imports pkg_resources, which newer releases of setuptools lack.
    python3 -m pip -q install --root-user-action=ignore --target "$1/python" bzfs pyznap 'setuptools<81'
  mkdir -p bin
  for name in bzfs pyznap; do
    [ ! -e "$1/python/bin/$name" ] || printf '#!/bin/sh\nPYTHONPATH=%s exec python3 %s "$@"\n' "$1/python" "$1/python/bin/$name" > "bin/$name"
  done
  [ ! -e "$1/debian/usr/sbin/syncoid" ] ||
    printf '#!/bin/sh\nPERL5LIB=%s exec perl %s "$@"\n' "$1/debian/usr/share/perl5" "$1/debian/usr/sbin/syncoid" > bin/syncoid
  chmod +x bin/* 2> /dev/null
  export PATH=$PWD/bin:$PATH
}

make_pools() {
  local pool
  for pool in source destination; do
    rm -f $pool.img; truncate -s 500M $pool.img
    must of_$pool zpool create -O atime=off -R "$PWD/mnt" $pool "$PWD/$pool.img"
  done
  must of_source zfs create source/a; must of_source zfs create source/a/b
  cp /bin/bash /etc/passwd mnt/source/a/; cp -r /etc/default mnt/source/a/b/
}
destroy_pools() {
  local pool
  for pool in destination source; do
    [ -z "${side[$pool]:-}" ] || of_$pool zpool destroy -f $pool 2> /dev/null
  done
}
scrub() { # WHO POOL
  must "$1" zpool scrub -w "$2"
  "$1" zpool status -v "$2" > log
  grep -q 'repaired 0B .* with 0 errors' log && grep -q 'No known data errors' log || { bad "scrub of $2"; cat log; }
}

# The newest snapshot's guid of each dataset.
newest() { # WHO DATASET OPTIONS...
  local who=$1 name=$2
  shift 2
  $who zfs list -Hp "$@" -t snapshot -s createtxg -o name,guid "$name" |
    awk -F '[@\t]' -v from=$((${#name} + 1)) '{ guid[substr($1, from)] = $3 } END { for (name in guid) print name, guid[name] }' | sort
}
# The file systems must have the same files, and the newest snapshots of each the same guids; of those inside, too, if they are not `alone`.
same() { # SOURCE'S DESTINATION'S [alone]
  local files='' datasets=-r
  [ -z "${3:-}" ] || { files='-x b' datasets='-d 1'; }
  of_source zfs mount -a; of_destination zfs mount -a # some receive without mounting
  diff -r --no-dereference $files "mnt/source/$1" "mnt/destination/$2" > difference 2>&1 ||
    { bad "files of source/$1 and destination/$2 differ"; head -5 difference; }
  newest of_source "source/$1" $datasets > guids.source; newest of_destination "destination/$2" $datasets > guids.destination
  [ -s guids.source ] && cmp -s guids.source guids.destination || { bad "newest snapshots of source/$1 and destination/$2"; diff guids.source guids.destination; }
}
# Fills a volume of a pool with noise, or not (`look`), and prints a sum of what is in it.
volume() { # fill|look POOL NAME
  python3 -B - "$scripts/streams-with-openzfs" "$@" "${side[$2]}" << 'PYTHON'
import hashlib, os, pathlib, sys
sys.path.insert(0, sys.argv[1])
from pools import Side
what, pool, name, commands = sys.argv[2:]
millpond = pathlib.Path(commands) / "millpond"
side = Side(pool, pathlib.Path.cwd(), [millpond, "zfs"], [millpond, "zpool"], not millpond.exists())
with side.volume(f"%/{name}") as volume:
    if what == "fill":
        volume.write(65536, os.urandom(1 << 20))
    print(hashlib.sha256(volume.read(0, 2 << 20)).hexdigest())
PYTHON
}

with_syncoid() {
  local source=${at[source]}source destination=${at[destination]}destination sync="tool syncoid --no-privilege-elevation --quiet" token sum
  must $sync -r $source/a $destination/s; same a s
  sleep 1 # its snapshots are named by the second
  echo more >> mnt/source/a/b/log; must $sync -r $source/a $destination/s; same a s
  sleep 1; echo other >> mnt/destination/s/b/log; echo other > mnt/destination/s/back; must $sync -r $destination/s $source/a; same a s
  [ -e mnt/source/a/back ] || bad "nothing came back"

  of_source zfs snapshot source/a@mark; must $sync --no-sync-snap --create-bookmark $source/a $destination/bookmarked; same a bookmarked alone
  of_source zfs destroy source/a@mark; echo more >> mnt/source/a/log; of_source zfs snapshot source/a@next
  must $sync --no-sync-snap $source/a $destination/bookmarked; same a bookmarked alone

  # It takes what is cut off here for its mbuffer.
  mkdir -p cut; printf '#!/bin/sh\nexec head -c 10M\n' > cut/mbuffer; chmod +x cut/mbuffer
  head -c 24M /dev/urandom > mnt/source/a/big; of_source zfs snapshot source/a@large
  PATH=$PWD/cut:$PATH $sync --no-sync-snap $source/a $destination/bookmarked > log 2>&1
  token=$(of_destination zfs get -H -o value receive_resume_token destination/bookmarked)
  [ ${#token} -gt 1 ] || { bad "no resume token"; tail -5 log; }
  must $sync --no-sync-snap $source/a $destination/bookmarked; same a bookmarked alone

  echo passphrase | of_source zfs create -o encryption=on -o keyformat=passphrase -o pbkdf2iters=100000 source/secret; cp /etc/passwd mnt/source/secret/
  must $sync --sendoptions=w $source/secret $destination/secret
  echo passphrase | of_destination zfs load-key destination/secret; must of_destination zfs mount destination/secret; same secret secret
  sleep 1; echo more >> mnt/source/secret/log; must $sync --sendoptions=w $source/secret $destination/secret; same secret secret

  must of_source zfs create -V 16M source/volume; sum=$(volume fill source volume); must $sync $source/volume $destination/volume
  [ -n "$sum" ] && [ "$sum" = "$(volume look destination volume)" ] || bad "the volume differs"

  of_source zfs clone source/a@next source/clone; sleep 1; must $sync -r $source $destination/all
  [ "$(of_destination zfs get -H -o value origin destination/all/clone)" = destination/all/a@next ] || bad "the clone is none"
  same a all/a; same clone all/clone; same secret all/secret
  [ "$sum" = "$(volume look destination all/volume)" ] || bad "the volume inside differs"
}
with_bzfs() {
  local copy="tool bzfs --no-privilege-elevation --quiet ${at[source]}source/a ${at[destination]}destination/z --recursive"
  of_source zfs snapshot -r source/a@z1; must $copy --create-bookmarks=all; same a z
  rm -f mnt/source/a/big; echo more >> mnt/source/a/b/log; of_source zfs snapshot -r source/a@z2; must $copy --create-bookmarks=all; same a z
  of_source zfs destroy -r source/a@z2; echo more >> mnt/source/a/log; of_source zfs snapshot -r source/a@z3; must $copy; same a z
  # It keeps what there is a bookmark of.
  of_source zfs list -H -t bookmark -o name -r source/a | of_source xargs -r -n 1 zfs destroy
  of_source zfs destroy -r source/a@z1; must $copy --skip-replication --delete-dst-snapshots; same a z
  of_destination zfs list -H destination/z@z1 destination/z/b@z2 > /dev/null 2>&1 && bad "a snapshot is still there"
  must of_source zfs create source/a/new
  must $copy --create-src-snapshots --create-src-snapshots-plan "{'p':{'onsite':{'secondly':1,'hourly':2}}}"; same a z
  echo other > mnt/destination/z/other; echo more >> mnt/source/a/log; of_source zfs snapshot -r source/a@z4
  must $copy --force-rollback-to-latest-snapshot; same a z
  must of_source zfs destroy -r source/a/new; must $copy --skip-replication --delete-dst-datasets
  of_destination zfs list -H destination/z/new > /dev/null 2>&1 && bad "a dataset is still there"
  same a z
}
with_pyznap() {
  local ssh=ssh:22:
  mkdir -p .ssh; touch .ssh/id_rsa # it asks for a key
  printf '[%s]\n  frequent = 2\n  hourly = 1\n  snap = yes\n  clean = yes\n  dest = %s\n' \
    "${at[source]:+$ssh${at[source]}}source/a" "${at[destination]:+$ssh${at[destination]}}destination/p" > pyznap.conf
  local pyznap="tool pyznap --config pyznap.conf"
  must of_destination zfs create destination/p
  must $pyznap snap --take; must $pyznap send; same a p
  echo more >> mnt/source/a/log; echo more >> mnt/source/a/b/log; sleep $((61 - $(date +%-S))) # its frequent snapshots are of minutes
  must $pyznap snap --take; must $pyznap send; same a p
  grep -q more mnt/destination/p/b/log && cmp mnt/{source/a,destination/p}/log || bad "it is not the second that was sent"
  must $pyznap snap --clean; must $pyznap send; same a p
}
# Runs all of it, in pools that are made for it and scrubbed.
replicate() { # WHAT IS TOLD OF
  local name before
  make_pools
  for name in syncoid bzfs pyznap; do
    command -v $name > /dev/null || { echo "$1$name: left out, it is not there"; continue; }
    before=$failed; "with_$name"
    [ $failed = "$before" ] && echo "$1$name: all as it should be"
  done
  scrub of_source source; scrub of_destination destination
}
