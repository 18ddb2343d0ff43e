#!/bin/bash
# All random test programs, one after the other in turns, with seeds from the clock, until the time is over. Prints the
# seeds and counts of each turn, and stops at the first difference with the command that repeats it.
#
#   random-hours.sh SECONDS [PROGRAM…]
#
# PROFILE is cargo's (fast), TURN the seconds of a turn (a sixteenth of all, at most 300). MILLPOND_ZDB names zdb, which
# judges samples; TMPDIR on a memory file system makes it several times faster. The mounted model needs /dev/fuse and
# MILLPOND_BIN; without it the binary of the profile is built and taken.
set -u
if [ $# -lt 1 ]; then
    sed -n '2,10s/^# \{0,1\}//p' "$0"
    exit 2
fi
TIME=$1
shift
cd "$(dirname "$0")/.." || exit 2
PROFILE=${PROFILE:-fast}
TURN=${TURN:-$((TIME / 16 < 300 ? (TIME / 16 > 10 ? TIME / 16 : 10) : 300))}
LOGS=$(mktemp -d)

# Name, program, what of it, how far a run takes the seed; 0: it goes on by itself for MILLPOND_SECONDS.
PROGRAMS="
model         model         --ignored:histories                       0
histories     histories     a_random_history                          1
crashes       crashes       crash_points_of_a_short_history           1
acknowledged  acknowledged  --exact:one_thread:many_threads           1
log           log           committed_survives                        1
exact         exact         --exact:crash_points                      10
faults        faults        what_was_accepted                         8
redundancy    redundancy    --ignored:many_redundant_pools            0
comings       redundancy    --ignored:many_devices_come_and_go        0
disks         disk_histories --ignored:many_disk_histories             0
expansions    expansion     --ignored:many_expansions                 0
removals      removals      --ignored:many_removals                   0
trims         trims         crash_points_beside_trims                 1
references    references    --ignored:random_histories_of_copies      0
full          full          --ignored:every_shape                     1
damage        damage        a_damaged_block                           1
forged        forged        --ignored:random_forged_pools             0
mounted       binary        --ignored:mounted_models                  0
exchanges     binary        --ignored:many_exchanges                  0
"

cargo build -q --profile "$PROFILE" -p millpond || exit 1
FOLDER=$PROFILE
[ "$PROFILE" = dev ] && FOLDER=debug
export MILLPOND_BIN=${MILLPOND_BIN:-$PWD/target/$FOLDER/millpond}
cargo test -q --profile "$PROFILE" -p millpond-torture --no-run || exit 1

FIRST=$(date +%s)
END=$((FIRST + TIME))
declare -A SEED RUNS

# One run of a program with a seed.
run() {
    local name=$1 program=$2 what=$3 seed=$4
    MILLPOND_SEED=$seed MILLPOND_SECONDS=$TURN MILLPOND_TURNS=${MILLPOND_TURNS:-200} \
        cargo test -q --profile "$PROFILE" -p millpond-torture --test "$program" -- \
        ${what//:/ } --nocapture --test-threads 1 > "$LOGS/$name" 2>&1
}

failed() {
    local name=$1 program=$2 what=$3 seed=$4
    grep -a -E 'repeat with|limits:|panicked' "$LOGS/$name" | tail -6
    tail -n 30 "$LOGS/$name"
    echo "$name differs, from seed $seed on: MILLPOND_SEED=$seed MILLPOND_SECONDS=$TURN" \
        "MILLPOND_TURNS=${MILLPOND_TURNS:-200} cargo test --profile $PROFILE -p millpond-torture --test $program --" \
        "${what//:/ } --nocapture --test-threads 1 (all it said: $LOGS/$name)"
    exit 1
}

# One turn of a program: runs until its time is over.
turn() {
    local name=$1 program=$2 what=$3 step=$4
    local begun first
    begun=$(date +%s)
    first=${SEED[$name]:-$FIRST}
    SEED[$name]=$first
    while :; do
        run "$name" "$program" "$what" "${SEED[$name]}" || failed "$name" "$program" "$what" "${SEED[$name]}"
        # One that goes on by itself takes as many seeds as it likes.
        SEED[$name]=$((SEED[$name] + (step > 0 ? step : 100000)))
        RUNS[$name]=$((${RUNS[$name]:-0} + 1))
        [ "$step" -eq 0 ] && break
        [ $(($(date +%s) - begun)) -ge "$TURN" ] && break
    done
    echo "$(date -u +%T) $name: seeds $first to $((SEED[$name] - 1)), ${RUNS[$name]} runs so far, 0 differences;" \
        "$(grep -a -E '0 differences|skipped' "$LOGS/$name" | tail -n 1)"
}

while [ "$(date +%s)" -lt "$END" ]; do
    while read -r name program what step; do
        [ -n "$name" ] || continue
        [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
        [ "$(date +%s)" -lt "$END" ] || break
        turn "$name" "$program" "$what" "$step" < /dev/null
    done <<< "$PROGRAMS"
done
for name in "${!RUNS[@]}"; do
    echo "$name: seeds $FIRST to $((SEED[$name] - 1)), ${RUNS[$name]} runs"
done
echo "$(($(date +%s) - FIRST)) seconds, 0 differences"
rm -r "$LOGS"
