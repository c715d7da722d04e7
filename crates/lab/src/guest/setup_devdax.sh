# The kernel reserves the dax device of a CXL region for `kmem`, which is not loaded here;
# `device_dax` binds to it once its name is in new_id.
DAX=/sys/bus/dax/devices/dax0.0
wait_for 60 "the dax device of $region" test -e $DAX/size
[ "$(cat $DAX/size)" = $((SLOW_KB * 1024)) ] || fail "finding $SLOW_KB kB in dax0.0, which has $(cat $DAX/size) bytes"
[ -e $DAX/driver ] || echo dax0.0 >/sys/bus/dax/drivers/device_dax/new_id || fail "giving dax0.0 to device_dax"
driver=$(readlink $DAX/driver)
[ "${driver##*/}" = device_dax ] || fail "giving dax0.0 to device_dax; its driver is ${driver##*/}"
wait_for 60 "/dev/dax0.0" test -c /dev/dax0.0
