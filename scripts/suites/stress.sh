#!/bin/bash
# stress-ng's file stressors with --verify, then git, SQLite and a C compiler on the same mount. stress.sh [SECONDS]
. "$(dirname "$0")/common.sh"
seconds=${1:-3}
need stress-ng stress-ng
make_pool 6G -O acltype=posix
mkdir "$mount/stress"
# Left out: those that no file system takes part in (eventfd, procfs …), and flock, locka, readahead, which do not end in
# their time on ext4 either.
for stressor in access chattr chdir chmod chown copy-file dentry dir dirdeep dirmany dnotify dup fallocate fcntl fiemap \
  file-ioctl filename fpunch fstat getdent handle hdd inode-flags inotify io iomix link lockf lockofd mknod mmap msync \
  open rename revio seek sendfile splice symlink sync-file touch utime xattr aio; do
  stress-ng --temp-path "$mount/stress" "--$stressor" 2 --timeout "${seconds}s" --verify >"$work/out" 2>&1 \
    || { cat "$work/out"; echo "FAILED: $stressor"; exit 1; }
done
echo "stress-ng: no fault"

if command -v git >/dev/null; then
  here=$(cd "$(dirname "$0")/../.." && pwd)
  git clone -q --no-hardlinks "$here" "$mount/clone" 2>/dev/null
  for round in 1 2 3; do
    git -C "$mount/clone" -c user.name=suite -c user.email=suite@localhost commit -q --allow-empty -m "$round"
    git -C "$mount/clone" gc -q --aggressive --prune=now
    git -C "$mount/clone" fsck --full --strict >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
    git clone -q "$mount/clone" "$mount/clone$round"
    git -C "$mount/clone$round" fsck --full >/dev/null 2>&1
    [ -z "$(git -C "$mount/clone$round" status --porcelain)" ]
  done
  echo "git: no fault"
fi
if command -v sqlite3 >/dev/null; then
  for journal in delete truncate wal; do
    database="$mount/$journal.db"
    {
      echo "pragma journal_mode=$journal; create table t (id integer primary key, v blob);"
      for _ in $(seq 200); do echo "insert into t (v) select randomblob(abs(random()) % 5000) from (select 1 union select 2 union select 3);"; done
      echo "delete from t where id % 3 = 0; vacuum; pragma integrity_check; select count(*) from t;"
    } | sqlite3 -bail "$database" >"$work/out"
    [ "$(tail -2 "$work/out" | paste -sd' ')" = "ok 400" ] || { cat "$work/out"; echo "FAILED: SQLite, $journal"; exit 1; }
  done
  echo "SQLite: no fault"
fi
if command -v gcc >/dev/null && command -v make >/dev/null; then
  mkdir "$mount/c"
  for file in $(seq 300); do
    printf '#include <stdio.h>\n#include <string.h>\nint f%d(void) { char b[64]; snprintf(b, sizeof b, "%%d", %d); return (int)strlen(b); }\n' "$file" "$file" >"$mount/c/f$file.c"
  done
  {
    for file in $(seq 300); do echo "int f$file(void);"; done
    echo 'int main(void) { int n = 0;'
    for file in $(seq 300); do echo "n += f$file();"; done
    echo 'return n != 9 + 2 * 90 + 3 * 201; }'
  } >"$mount/c/main.c"
  printf 'all: p\np: $(patsubst %%.c,%%.o,$(wildcard *.c))\n\tgcc -o $@ $^\n' >"$mount/c/Makefile"
  make -s -j"$(nproc)" -C "$mount/c"
  "$mount/c/p"
  make -s -q -C "$mount/c"
  echo "C: no fault"
fi
verify_pool
