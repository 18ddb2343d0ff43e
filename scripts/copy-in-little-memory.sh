#!/bin/bash
# A tree copied into a pool while the server and cp share a control group with little memory, and without it.
#
#   copy-in-little-memory.sh MILLPOND WORKDIR [MEGABYTES [LIMIT_MB]]
#
# As root, with control groups of version 1. Needs three times MEGABYTES (4096) in WORKDIR; LIMIT_MB is 512.
set -eu
M=$(realpath "$1") W=$2 SIZE=${3:-4096} LIMIT=${4:-512}
GROUP=/sys/fs/cgroup/memory/millpond-copy
mkdir -p "$W/mnt" "$W/source"
export MILLPOND_RUN=$W/run
trap '$M zpool export little 2> /dev/null || true; rm -rf "$W/little.img" "$W/source"; rmdir $GROUP 2> /dev/null || true' EXIT

for ((i = 0; i < SIZE / 64; i++)); do
    head -c $((63 << 20)) /dev/urandom > "$W/source/large$i"
    mkdir "$W/source/small$i"
    head -c $((1 << 20)) /dev/urandom | split -b 8192 -a 3 - "$W/source/small$i/"
done
# Pool, copy and sync; the megabytes a second.
copy() {
    local from
    "$M" zpool create -f --size $((SIZE * 3 / 2 + 1024))M -R "$W/mnt" little "$W/little.img"
    echo 3 > /proc/sys/vm/drop_caches
    from=$EPOCHREALTIME
    cp -a "$W/source" "$W/mnt/little/"
    "$M" zpool sync little
    echo "$SIZE / ($EPOCHREALTIME - $from)" | bc > "$W/rate"
    diff -rq "$W/source" "$W/mnt/little/source"
    "$M" zpool export little
    rm "$W/little.img"
}
copy
free=$(cat "$W/rate")
mkdir $GROUP
echo $((LIMIT << 20)) > $GROUP/memory.limit_in_bytes
(
    echo "$BASHPID" > $GROUP/cgroup.procs
    copy
)
confined=$(cat "$W/rate")
echo "$SIZE MB: $free MB/s, in $LIMIT MB of memory $confined MB/s: $(echo "scale=2; $confined / $free" | bc)"
grep oom_kill $GROUP/memory.oom_control
