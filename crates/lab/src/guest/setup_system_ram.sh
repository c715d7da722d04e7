# `kmem` brings the region online as node 1.
node_is_online() {
    kb=$(sed -n 's/^Node 1 MemTotal: *\([0-9]*\) kB/\1/p' /sys/devices/system/node/node1/meminfo 2>/dev/null)
    [ "${kb:-0}" = "$SLOW_KB" ]
}
wait_for 120 "node 1 with $SLOW_KB kB online" node_is_online
