#!/bin/bash
# How fast a daemon lists snapshots: 128 file systems with 782 snapshots each, 100,096 in all, unless told otherwise.
#
#   list-snapshots.sh MILLPOND WORKDIR [FILESYSTEMS [SNAPSHOTS]]
#
# As root for the mounted half. Each list is made three times, the shortest counts. Needs 1 GB in WORKDIR.
set -eu
M=$(realpath "$1") W=$2 FILESYSTEMS=${3:-128} SNAPSHOTS=${4:-782}
mkdir -p "$W/mnt"
export MILLPOND_RUN=$W/run
trap '$M zpool export lists 2> /dev/null || true; rm -f "$W/lists.img"' EXIT

seconds() {
    local best='' from taken
    for _ in 1 2 3; do
        from=$EPOCHREALTIME
        "$@" > "$W/list.txt"
        taken=$(echo "$EPOCHREALTIME - $from" | bc)
        if [ -z "$best" ] || [ "$(echo "$taken < $best" | bc)" = 1 ]; then best=$taken; fi
    done
    echo "$best"
}
report() {
    local taken lines
    taken=$(seconds "${@:2}")
    lines=$(wc -l < "$W/list.txt")
    echo "$1: $lines lines in $taken s, $(echo "$lines / $taken" | bc) a second"
}
lists() {
    report "$1, names" "$M" zfs list -H -t all -o name
    report "$1, default columns" "$M" zfs list -H -t all
}

$M zpool create -f --size 4G -R "$W/mnt" lists "$W/lists.img"
for ((i = 0; i < FILESYSTEMS; i++)); do $M zfs create "lists/f$i"; done
from=$EPOCHREALTIME
for ((i = 0; i < SNAPSHOTS; i++)); do $M zfs snapshot -r "lists@s$i"; done
echo "made: $((SNAPSHOTS * (FILESYSTEMS + 1))) snapshots in $(echo "$EPOCHREALTIME - $from" | bc) s"
lists 'mounted'
$M zpool export lists
$M zpool import -N -d "$W" lists
lists 'not mounted'
grep VmHWM "/proc/$(cat "$W"/run/*.pid 2> /dev/null | head -1)/status" 2> /dev/null || true
