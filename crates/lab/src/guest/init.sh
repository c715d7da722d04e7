#!/bin/busybox sh
# The guest's first process. It mounts the usual file systems, sets up the network and the memory,
# runs the commands in /lab/commands one after another, and sends every result through the virtio
# port in frames with a length. The serial console is only for people to watch.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root LD_LIBRARY_PATH=/lab/lib TMPDIR=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mkdir -p /dev/shm /dev/hugepages /tmp /run /root
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t hugetlbfs hugetlbfs /dev/hugepages 2>/dev/null
exec </dev/null >/dev/console 2>&1
. /lab/config

stop() { sleep 0.2; poweroff -f; sleep 60; }

# The port may appear a moment after init starts.
port=
tries=0
while [ -z "$port" ] && [ $tries -lt 600 ]; do
    for p in /sys/class/virtio-ports/*; do
        [ "$(cat "$p/name" 2>/dev/null)" = "$PORT_NAME" ] && port=/dev/${p##*/}
    done
    [ -n "$port" ] || sleep 0.1
    tries=$((tries + 1))
done
[ -c "$port" ] || { echo "lab: the results port did not appear"; stop; }
exec 9>"$port"

# frame KIND INDEX VALUE [FILE]
frame() {
    if [ -n "$4" ]; then size=$(stat -c %s "$4"); else size=0; fi
    printf '%s %s %s %s %s\n' "$TAG" "$1" "$2" "$3" "$size" >&9
    [ "$size" = 0 ] || cat "$4" >&9
    printf '\n' >&9
}

# fail STEP [VALUE]: 1, the default, for a step that failed at once, 2 for one that timed out.
fail() { echo "lab: set-up failed at: $1"; echo "$1" >/run/step; frame setup 0 "${2:-1}" /run/step; stop; }

# wait_for SECONDS WHAT COMMAND...
wait_for() {
    left=$(($1 * 10)); what=$2; shift 2
    until "$@"; do
        left=$((left - 1))
        [ $left -gt 0 ] || fail "waiting for $what" 2
        sleep 0.1
    done
}

frame boot 0 0
for module in $MODULES; do
    insmod "/lab/modules/$module.ko" || fail "loading the kernel module $module"
done
ip link set lo up || fail "bringing the network interface lo up"
if [ -n "$ADDRESS" ]; then
    wait_for 60 "the network interface eth0" test -e /sys/class/net/eth0
    ip addr add "$ADDRESS" dev eth0 || fail "giving eth0 the address $ADDRESS"
    ip link set eth0 up || fail "bringing the network interface eth0 up"
fi
. /lab/setup
frame setup 0 0

mkdir -p /run/lab
n=0
while [ $n -lt "$COMMANDS" ]; do
    echo "lab: \$ $(cat /lab/commands/$n.title)"
    out=/run/lab/out err=/run/lab/err
    if [ -e /lab/commands/$n.echo ]; then
        rm -f /run/lab/o /run/lab/e
        mkfifo /run/lab/o /run/lab/e
        tee $out </run/lab/o 9>&- & t1=$!
        tee $err </run/lab/e 9>&- & t2=$!
        sh /lab/commands/$n >/run/lab/o 2>/run/lab/e 9>&-
        rc=$?
        wait $t1 $t2
    else
        sh /lab/commands/$n >$out 2>$err 9>&-
        rc=$?
    fi
    [ $rc = 0 ] || echo "lab: exit code $rc"
    frame stdout $n 0 $out
    frame stderr $n 0 $err
    frame exit $n $rc
    rm -f $out $err
    n=$((n + 1))
done

# Sizes of /sys and /proc files are not their lengths, so they are copied before cpio packs them.
if [ -s /lab/collect ]; then
    mkdir -p /run/lab/collect
    . /lab/collect
    (cd /run/lab/collect && find . | cpio -o -H newc >/run/lab/collect.cpio 2>/dev/null)
    frame collect 0 0 /run/lab/collect.cpio
fi
frame done 0 0
stop
