#!/bin/bash
# xfstests, generic/quick, over FUSE. XFSTESTS names the folder in which it was built. xfstests.sh [ARGUMENTS of check]
. "$(dirname "$0")/common.sh"
here=$(cd "$(dirname "$0")" && pwd)
[ -x "${XFSTESTS:-}/check" ] || { echo "skipped: XFSTESTS does not name a folder in which xfstests was built"; exit 0; }
for user in fsgqa fsgqa2; do
  id "$user" >/dev/null 2>&1 || { echo "skipped: there is no user $user, see the README of xfstests"; exit 0; }
done
helper=/sbin/mount.fuse.zfs
[ ! -e "$helper" ] || { echo "skipped: $helper exists"; exit 0; }
make_pool 12G -O acltype=posix -O canmount=noauto
for name in test scratch; do
  millpond zfs create -o canmount=noauto -o "mountpoint=/$name" "$pool/$name"
  mkdir "$work/mounts/$name"
done
# mount(8) calls it for the type fuse.zfs: DATASET FOLDER [-o OPTIONS].
cat >"$helper" <<HELPER
#!/bin/bash
export MILLPOND_RUN="$work/run"
dataset=\$1 folder=\$2 options=
while [ \$# -gt 2 ]; do case \$3 in -o) options=\$4; shift;; esac; shift; done
case ",\$options," in *,remount,*) exec mount -i -o "\$options" "\$folder";; esac
options=\$(tr , '\n' <<<"\$options" | grep -vE '^(rw|defaults|dev|suid|exec|)\$' | paste -sd,)
case "\$("$MILLPOND_BIN" zfs get -H -o value mountpoint "\$dataset")" in
  */"\$folder" | "\$folder") ;;
  *) "$MILLPOND_BIN" zfs set mountpoint="\${folder#"$work/mounts"}" "\$dataset" || exit 32 ;;
esac
exec "$MILLPOND_BIN" zfs mount \${options:+-o "\$options"} "\$dataset"
HELPER
chmod 755 "$helper"
end() {
  local status=$?
  rm -f "$helper"
  finish "$status"
}
trap end EXIT
# xfstests wants to read the type "fuse".
mkdir "$work/bin"
printf '#!/bin/sh\n%s "$@" | sed "s/ fuse\\.zfs / fuse     /"\n' "$(command -v df)" >"$work/bin/df"
chmod 755 "$work/bin/df"
export PATH="$work/bin:$PATH"
export TEST_DEV="$pool/test" TEST_DIR="$work/mounts/test" SCRATCH_DEV="$pool/scratch" SCRATCH_MNT="$work/mounts/scratch"
export FSTYP=fuse FUSE_SUBTYP=.zfs HOST_OPTIONS=/dev/null RESULT_BASE="$work/results"
mkdir "$RESULT_BASE"
grep -hv '^#' "$here/xfstests.exclude" | grep . >"$work/exclude"
if ! (ulimit -Sf 100 && ulimit -Hf 100 && ulimit -Hf 200) 2>/dev/null; then
  grep -v '^#' "$here/xfstests.restricted" >>"$work/exclude"
fi
cd "$XFSTESTS"
[ $# -gt 0 ] || set -- -g generic/quick
./check -E "$work/exclude" "$@" 2>&1 | tee "$work/check.out" | grep -vE 'not run|expunged' || true
for name in test scratch; do mountpoint -q "$work/mounts/$name" && umount "$work/mounts/$name"; done
verify_pool
grep -q '^Passed all' "$work/check.out"
