#!/bin/bash
# Pools that OpenZFS's ztest leaves behind when it is killed: `inspect --verify` and zdb must agree about them, they must import, be scrubbed
# and be exported here, and zdb must find nothing wrong afterwards.
# usage: ztest-pools.sh MILLPOND [RUNS [SECONDS]]      20 runs of 60 s unless told; needs scripts/openzfs-tools.sh (ZTEST and ZDB name others)
set -uo pipefail
[ $# -ge 1 ] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
millpond=$(realpath "$1"); runs=${2:-20}; seconds=${3:-60}
tools=target/openzfs/run; ztest=${ZTEST:-$tools/ztest}; zdb=${ZDB:-$tools/zdb}
[ -x "$ztest" ] && [ -x "$zdb" ] || { echo "skipped: no ztest; scripts/openzfs-tools.sh unpacks it"; exit 0; }
ztest=$(realpath "$ztest"); zdb=$(realpath "$zdb")
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
export HOME=$folder MILLPOND_RUN=$folder/run ZFS_HOSTID=7 PATH=$(dirname "$zdb"):$PATH # ztest calls zdb, too
kinds=("-K raidz -m 0 -R 1" "-K raidz -m 0 -R 2 -r 5" "-K draid -m 0" "-K draid -m 0 -R 2 -D 3 -r 8 -S 2" "-K raidz -m 2 -r 1" "-K raidz -m 3 -r 1" "-K raidz -m 0 -R 3 -r 6" "-K eraidz -m 0")
bad=0
# What went wrong is kept: KEEP names the directory, /tmp unless told.
keep() { cp -r --sparse=always "$before" "${KEEP:-/tmp}/ztest-pool-$run-$$"; }
for ((run = 1; run <= runs; run++)); do
  kind=${kinds[(run - 1) % ${#kinds[@]}]}; place=$folder/pool; rm -rf "$place"; mkdir "$place"
  # It ends after its time, or is killed at a moment of our own before.
  # shellcheck disable=SC2086
  setsid "$ztest" -f "$place" -T "$seconds" -P 15 $kind > "$folder/ztest.log" 2>&1 &
  pid=$!
  sleep $((seconds / 2 + RANDOM % (seconds / 2 + 1)))
  kill -KILL -- "-$pid" 2>/dev/null; wait "$pid" 2>/dev/null
  [ -n "$(ls -A "$place")" ] || { echo "run $run ($kind): ztest left no pool: $(tail -1 "$folder/ztest.log")"; continue; }
  before=$folder/before; rm -rf "$before"; cp -r --sparse=always "$place" "$before"
  # One of ztest's tests gives the pool another name for a moment, others leave pools of their own beside it.
  name=$("$millpond" inspect -l "$place/ztest.0a" 2>/dev/null | sed -n "s/^ *name: '\\(.*\\)'/\\1/p" | head -1); name=${name:-ztest}
  say() { echo "run $run ($kind): $*"; }
  "$zdb" -e -p "$place" -bcc "$name" > "$folder/zdb.log" 2>&1; found=$?
  "$millpond" inspect --verify "$place"/ztest.* "$name" > "$folder/inspect.log" 2>&1; ours=$?
  clean=no; grep -q 'No leaks' "$folder/zdb.log" && clean=yes
  agrees=yes
  if [ $clean = yes ] && [ $found = 0 ]; then [ $ours = 0 ] || agrees=no; else [ $ours != 0 ] || agrees=no; fi
  if [ $agrees = no ]; then
    say "zdb ($found, no leaks: $clean) and inspect ($ours) do not agree"; bad=$((bad + 1))
    keep; tail -n 5 "$folder/zdb.log" "$folder/inspect.log"
    continue
  fi
  if ! "$millpond" zpool import -f -N -d "$place" "$name" > "$folder/import.log" 2>&1; then
    say "not imported: $(head -3 "$folder/import.log" | tr '\n' ' ')"; bad=$((bad + 1)); keep; continue
  fi
  "$millpond" zpool scrub -w "$name" > "$folder/scrub.log" 2>&1
  scan=$("$millpond" zpool status "$name" | grep -m1 'scan:')
  "$millpond" zpool export "$name" > "$folder/export.log" 2>&1 || { say "not exported: $(cat "$folder/export.log")"; bad=$((bad + 1)); }
  "$zdb" -e -p "$place" -bcc "$name" > "$folder/after.log" 2>&1; after=$?
  if [ $clean = yes ] && { [ $after != 0 ] || ! grep -q 'No leaks' "$folder/after.log"; }; then
    say "zdb is not content after the scrub"; bad=$((bad + 1)); keep; tail -n 5 "$folder/after.log"; continue
  fi
  [ $clean = yes ] || say "zdb said before: $(tr '\r' '\n' < "$folder/zdb.log" | grep -iE 'leaked|ASSERT|error' | tail -2 | tr '\n' ' ')"
  say "zdb $found, no leaks: $clean; inspect $ours;$scan; zdb after it $after"
done
echo "$runs runs, $bad bad"
[ $bad = 0 ]
