#!/bin/bash
# Sequential write, cold read, scrub and verification of raidz2 of six files beside a pool of one file.
#
#   raidz-speed.sh MILLPOND WORKDIR [MEGABYTES [TURNS]]
#
# Needs three times MEGABYTES (2048) in WORKDIR. One line a turn and pool, in MB/s of the file; scrub and verification in MB/s
# of what lies on the devices, and beside them what reading all of that takes, one reader a device, past the page cache. In brackets CPU time, in hundredths of a
# second: of the process that serves the pool, or of the one that verifies it.
set -eu
M=$(realpath "$1") W=$(realpath "$2") SIZE=${3:-2048} TURNS=${4:-3}
mkdir -p "$W/mnt"
export MILLPOND_RUN=$W/run
trap '$M zpool export speed 2> /dev/null || true; rm -rf "$W"/speed.* "$W/source"' EXIT
head -c $((SIZE << 20)) /dev/urandom > "$W/source"

# CPU seconds that the process which serves the pool has used, in hundredths.
cpu() {
    local pid used=0
    for pid in $(pgrep -f 'daemon-child'); do
        if readlink /proc/"$pid"/fd/* | grep -qxF "$(realpath "$W")/speed.1"; then
            used=$(cut -d" " -f14,15 "/proc/$pid/stat" | tr " " +)
        fi
    done
    echo $((used))
}
rate() { echo "$1 / ($EPOCHREALTIME - $2)" | bc; }
cold() { sync; echo 3 > /proc/sys/vm/drop_caches 2> /dev/null || true; }
turn() {
    local name=$1 from images write read scrub verify raw stored
    shift
    images=("$W"/speed.{1..6})
    [ "$name" = one ] && images=("$W/speed.1")
    truncate -s $((SIZE * 2))M "${images[@]}"
    "$M" zpool create -f -o ashift=12 -O compression=off -O recordsize="${RECORD:-128K}" -R "$W/mnt" speed "$@" "${images[@]}"
    cold
    from=$EPOCHREALTIME
    dd if="$W/source" of="$W/mnt/speed/file" bs=1M status=none
    "$M" zpool sync speed
    write="$(rate "$SIZE" "$from") ($(cpu))"
    "$M" zpool export speed
    cold
    "$M" zpool import -d "$W" -R "$W/mnt" speed
    used=$(cpu)
    from=$EPOCHREALTIME
    dd if="$W/mnt/speed/file" of=/dev/null bs=1M status=none
    read="$(rate "$SIZE" "$from") ($(($(cpu) - used)))"
    stored=$(($("$M" zpool list -Hp -o allocated speed) >> 20))
    cold
    used=$(cpu)
    from=$EPOCHREALTIME
    "$M" zpool scrub -w speed
    scrub="$(rate "$stored" "$from") ($(($(cpu) - used)))"
    "$M" zpool export speed
    cold
    from=$EPOCHREALTIME
    TIMEFORMAT='%U %S'
    used=$({ time "$M" inspect --verify "${images[@]}" > /dev/null; } 2>&1)
    used=$(echo "(${used/ /+}) * 100 / 1" | bc)
    verify="$(rate "$stored" "$from") ($used)"
    cold
    from=$EPOCHREALTIME
    for image in "${images[@]}"; do
        dd if="$image" of=/dev/null bs=1M iflag=direct count=$((stored / ${#images[@]})) skip=16 status=none &
    done
    wait
    raw=$(rate "$stored" "$from")
    rm "${images[@]}"
    echo "$name: write $write read $read scrub $scrub verify $verify raw $raw"
}
for ((i = 0; i < TURNS; i++)); do
    turn one
    turn raidz2 raidz2
done
