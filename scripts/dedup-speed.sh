#!/bin/bash
# Writing with dedup=on beside dedup=off: data that are all new, to a table many times the memory that it may use, and
# data that the pool has already.
#
#   dedup-speed.sh MILLPOND WORKDIR [CACHE_MB [TIMES…]]
#
# Needs some 10 GB in WORKDIR, and root. CACHE_MB (16) is what the pool may keep in memory of whatever it read, the
# table is measured when it is so many TIMES (10 20) as large. Records of 4 KB, without compression; what is timed is a
# copy of 64 MB of noise until it is on disk, three of them; MB a second, the best, with dedup=on, with dedup=off; and
# the mean of a dozen in turns, as what is written to a log comes into the table with one copy more than with another.
set -eu
M=$(realpath "$1") W=$(realpath "$2") CACHE=${3:-16}
shift $(($# > 3 ? 3 : $#))
TIMES=${*:-10 20}
mkdir -p "$W/mnt"
export MILLPOND_RUN=$W/run
clean() {
    for pool in on off; do "$M" zpool export -f $pool 2> /dev/null || true; done
    rm -rf "$W"/on.img "$W"/off.img "$W/source" "$W/run"
}
trap clean EXIT
number=0
copy() { cp "$W/source" "$W/mnt/$1/$2" && sync -f "$W/mnt/$1/$2" && "$M" zpool sync "$1"; }
# The MB a second of one copy.
speed() {
    local began=$EPOCHREALTIME
    copy "$@"
    echo $((64 * 1048576 / (${EPOCHREALTIME/./} - ${began/./})))
}
fresh() { number=$((number + 1)) && head -c $((64 << 20)) /dev/urandom > "$W/source"; }
best() { printf '%s\n' "$@" | sort -n | tail -1; }
# Of figures that are so much in a time.
mean() { printf '%s\n' "$@" | awk '{ sum += 1 / $1 } END { printf "%.0f", NR / sum }'; }
# Copies of new data to each, in turns.
compare() {
    local on=() off=()
    for ((turn = 0; turn < ${2:-3}; turn++)); do
        fresh
        on+=("$(speed on "new$number")")
        off+=("$(speed off "new$number")")
    done
    echo "$1: on $(best "${on[@]:0:3}"), off $(best "${off[@]:0:3}") MB/s;" \
        "mean on $(mean "${on[@]}"), off $(mean "${off[@]}")"
}
table() { "$M" zpool get -Hp -o value dedup_table_size on; }
make() {
    MILLPOND_TUNABLES=cache.limit_bytes_cap=$((CACHE << 20)) "$M" zpool create -f --size "$2" -o ashift=12 -O atime=off \
        -O compression=off -O recordsize="$3" -O dedup="$1" -R "$W/mnt" "$1" "$W/$1.img"
}
make on 6G 128K
make off 6G 128K
compare "unique, 128 KB records, empty table"
fresh
copy on twice
again=() once=()
for turn in 1 2 3; do
    again+=("$(speed on "again$turn")")
    once+=("$(speed off "again$turn")")
done
echo "every block a duplicate: on $(best "${again[@]}"), off $(best "${once[@]}") MB/s"
"$M" zpool destroy on
"$M" zpool destroy off
make on 8G 4K
make off 2G 4K
compare "unique, 4 KB records, empty table"
for times in $TIMES; do
    while (($(table) < times * CACHE << 20)); do
        fresh
        copy on "fill$number"
    done
    compare "unique, 4 KB records, a table of $(($(table) >> 20)) MB for a cache of $CACHE MB" 12
    rm "$W"/mnt/off/new*
    "$M" zpool sync off
done
