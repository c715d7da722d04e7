#!/bin/sh
# Compiles crates for aarch64-unknown-linux-gnu on an x86-64 machine; with --run also runs their
# unit tests in an emulator.
#
#   scripts/check-aarch64.sh [--run] [CRATE...]        default: tierloom-kernels
#
# The target of rustup is used where it is installed. Otherwise a compiler with the target's
# standard library comes from Debian packages (about 140 MB, once), and for --run a linker, a C
# library and QEMU (about 80 MB more). They are unpacked into ~/.cache/tierloom/aarch64
# (TIERLOOM_AARCH64_CACHE); nothing is installed, and no root is needed. TIERLOOM_AARCH64_SUITE
# chooses the Debian release; it needs a rustc that is new enough for this workspace.
#
# Exit codes: 0 the crates compile (and pass), 1 they do not, 3 this machine cannot check (the
# message says what is missing).
set -eu

target=aarch64-unknown-linux-gnu
suite=${TIERLOOM_AARCH64_SUITE:-forky}
cache=${TIERLOOM_AARCH64_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tierloom/aarch64}
root=$cache/$suite
host_libraries=$root/usr/lib/x86_64-linux-gnu
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

cannot() {
    echo "check-aarch64: cannot check here: $1" >&2
    echo "check-aarch64: with rustup the target alone is enough to compile: rustup target add $target" >&2
    exit 3
}

# Runs an apt tool with a separate state, without the system's sources and packages.
apt_tool() {
    APT_CONFIG=$cache/apt/apt.conf "$@"
}

prepare_apt() {
    command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null ||
        cannot "apt-get and dpkg-deb (of Debian or Ubuntu) are needed to fetch a compiler for it"
    [ -e "$keyring" ] || cannot "install debian-archive-keyring: it verifies the packages that are fetched"
    mkdir -p "$cache/apt/lists/partial" "$cache/apt/archives/partial" "$cache/apt/etc/sources.list.d" "$cache/apt/etc/apt.conf.d" "$cache/apt/etc/preferences.d"
    # Mirrors and caches may lag behind: expired lists are accepted, since they are signed.
    : > "$cache/apt/status"
    echo "deb [signed-by=$keyring] http://deb.debian.org/debian $suite main" > "$cache/apt/etc/sources.list"
    cat > "$cache/apt/apt.conf" << CONF
Dir "$cache/apt";
Dir::State "$cache/apt";
Dir::State::status "$cache/apt/status";
Dir::State::lists "$cache/apt/lists";
Dir::Cache "$cache/apt";
Dir::Cache::archives "$cache/apt/archives";
Dir::Etc "$cache/apt/etc";
APT::Architecture "amd64";
APT::Architectures { "amd64"; "arm64"; };
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
CONF
    apt_tool apt-get -qq update || cannot "the package lists of Debian $suite cannot be fetched; check the network"
}

# The highest numbered package of a family: "numbered libllvm ''" answers libllvm22.
numbered() {
    apt_tool apt-cache pkgnames "$1" | sed -n "s/^\($1[0-9.]*$2\)\$/\1/p" | sort -V | tail -n 1
}

depends_on() {
    apt_tool apt-cache depends "$1" | sed -n "s/^ *Depends: \($2\)\$/\1/p" | head -n 1
}

# Fetches and unpacks packages; the first argument names them in the cache once they are complete.
unpack() {
    mark=$root/.$1
    shift
    mkdir -p "$root"
    (cd "$cache/apt/archives" && rm -f ./*.deb && apt_tool apt-get -qq download "$@") ||
        cannot "packages of Debian $suite cannot be fetched: $*"
    for package in "$cache"/apt/archives/*.deb; do
        dpkg-deb -x "$package" "$root"
        rm "$package"
    done
    touch "$mark"
}

# Programs of that release need its libraries, which are newer than the system's, and so its loader.
wrap() {
    cat > "$cache/$1" << WRAPPER
#!/bin/sh
$3
exec "$host_libraries/ld-linux-x86-64.so.2" --library-path "$host_libraries" --argv0 "$root/usr/bin/$1" "$root/$2" $4
WRAPPER
    chmod +x "$cache/$1"
}

fetch_compiler() {
    if [ ! -e "$root/.compiler" ]; then
        prepare_apt
        std=$(depends_on libstd-rust-dev 'libstd-rust-[0-9.]*')
        llvm=$(depends_on "${std:-libstd-rust-dev}" 'libllvm[0-9]*')
        [ -n "$std" ] && [ -n "$llvm" ] || cannot "Debian $suite has no rustc that can be taken apart like this"
        unpack compiler rustc "$std" libstd-rust-dev libstd-rust-dev:arm64 "$llvm" libc6 libgcc-s1 libstdc++6 zlib1g libzstd1 \
            libxml2-16 libedit2 libffi8 libz3-4 libbsd0 libmd0 libtinfo6
    fi
    # shellcheck disable=SC2016  # for the wrapper to expand
    wrap rustc usr/bin/rustc '' "--sysroot \"$root/usr\" \"\$@\""
    RUSTC=$cache/rustc
    export RUSTC
    "$RUSTC" --version > /dev/null || cannot "the compiler unpacked under $root does not run; remove that folder and try again"
}

fetch_runner() {
    if [ ! -e "$root/.runner" ]; then
        [ -e "$cache/apt/apt.conf" ] || prepare_apt
        apt_tool apt-get -qq update || cannot "the package lists of Debian $suite cannot be fetched; check the network"
        unpack runner "$(numbered lld- '')" "$(numbered libllvm '')" qemu-user libc6-dev:arm64 "$(numbered libgcc- -dev):arm64" \
            libc6 libgcc-s1 libstdc++6 zlib1g libzstd1 libxml2-16 libedit2 libffi8 libz3-4 libbsd0 libmd0 libtinfo6
    fi
    lld=$(cd "$root" && echo usr/lib/llvm-*/bin/lld)
    gcc=$(echo "$root"/usr/lib/gcc/aarch64-linux-gnu/*)
    libc=$root/usr/lib/aarch64-linux-gnu
    # Static programs, so that QEMU needs no libraries. rustc leaves the start files to the caller of
    # the linker.
    # shellcheck disable=SC2016  # for the wrapper to expand
    wrap ld.lld "$lld" '[ "$1" = -flavor ] && shift 2' \
        "--sysroot='$root' '$libc/crt1.o' '$libc/crti.o' '$gcc/crtbeginT.o' -L '$libc' -L '$gcc' \"\$@\" --start-group -lc -lgcc -lgcc_eh --end-group '$gcc/crtend.o' '$libc/crtn.o'"
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$cache/ld.lld
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$root/usr/bin/qemu-aarch64
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS='-C linker-flavor=ld.lld -C target-feature=+crt-static -C relocation-model=static'
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS
}

run=no
if [ "${1:-}" = --run ]; then
    run=yes
    shift
fi
[ $# -gt 0 ] || set -- tierloom-kernels
crates=
for crate; do crates="$crates -p $crate"; done

if [ "$(uname -m)" = aarch64 ] || [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    echo "check-aarch64: compiling with the installed target" >&2
elif [ "$(uname -m)" = x86_64 ]; then
    fetch_compiler
    echo "check-aarch64: compiling with $("$RUSTC" --version)" >&2
else
    cannot "$target is not installed, and packages are fetched for x86-64 only"
fi
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/aarch64
export CARGO_TARGET_DIR

if [ $run = yes ]; then
    [ "$(uname -m)" = aarch64 ] || fetch_runner
    # shellcheck disable=SC2086  # a list
    cargo test $crates --lib --target $target || exit 1
else
    # Not just checked: inline assembly is assembled only when code is generated.
    # shellcheck disable=SC2086
    cargo build $crates --lib --target $target || exit 1
fi
