#!/bin/sh
# Type-checks a crate for aarch64-unknown-linux-gnu on an x86-64 machine, and with --run also runs its tests in an emulator.
#
#   scripts/check-aarch64.sh [--run] [CRATE...]        default: tierloom-kernels
#
# If rustup has the target, that is used. Otherwise a compiler and a standard library for aarch64 are taken from Debian packages (about 140 MB,
# once) into ~/.cache/tierloom/aarch64; nothing is installed on the system. Set TIERLOOM_AARCH64_CACHE for another folder.
# --run needs a linker (gcc-aarch64-linux-gnu) and qemu-aarch64: where they are not installed, another 80 MB.
#
# Exit codes: 0 the crates are fine, 1 they are not, 3 this machine cannot check (it says what is missing).
set -eu

target=aarch64-unknown-linux-gnu
suite=${TIERLOOM_AARCH64_SUITE:-forky}
cache=${TIERLOOM_AARCH64_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tierloom/aarch64}
root=$cache/root-$suite

cannot() {
    echo "check-aarch64: cannot check here: $1" >&2
    echo "check-aarch64: or install the target itself: rustup target add $target" >&2
    exit 3
}

# apt with a state of its own: an ordinary user's, and blind to the system's sources.
private_apt() {
    mkdir -p "$cache/apt/lists/partial" "$cache/apt/archives/partial" "$cache/apt/etc/sources.list.d"
    : > "$cache/apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" > "$cache/apt/etc/sources.list"
    cat > "$cache/apt/apt.conf" <<CONF
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
CONF
    APT_CONFIG=$cache/apt/apt.conf "$@"
}

# Downloads packages and unpacks them under the root; $1 names the set in the cache.
unpack() {
    set_name=$1
    shift
    [ -e "$root/.$set_name" ] && return
    command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null ||
        cannot "it needs apt-get and dpkg-deb of Debian or Ubuntu to fetch a compiler for $target"
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || cannot "install debian-archive-keyring, which signs the packages it would fetch"
    mkdir -p "$root"
    private_apt apt-get -q -q update || cannot "Debian's package lists cannot be fetched; check the network"
    (cd "$cache/apt/archives" && private_apt apt-get -q -q download "$@") || cannot "packages of Debian $suite cannot be fetched: $*"
    for package in "$cache"/apt/archives/*.deb; do
        dpkg-deb -x "$package" "$root"
        rm "$package"
    done
    touch "$root/.$set_name"
}

run=no
if [ "${1:-}" = --run ]; then
    run=yes
    shift
fi
[ $# -gt 0 ] || set -- tierloom-kernels
packages=
for crate; do packages="$packages -p $crate"; done

if [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    echo "check-aarch64: the target is installed" >&2
elif [ "$(uname -m)" = x86_64 ]; then
    # The numbered names change with releases: they are what rustc depends on.
    private_apt true
    [ -e "$root/.compiler" ] || private_apt apt-get -q -q update || cannot "Debian's package lists cannot be fetched; check the network"
    if [ ! -e "$root/.compiler" ]; then
        depends_on() { private_apt apt-cache depends "$1" 2> /dev/null | sed -n "s/^ *Depends: \($2\)\$/\1/p" | head -n 1; }
        std=$(depends_on libstd-rust-dev 'libstd-rust-[0-9.]*')
        llvm=$(depends_on "${std:-none}" 'libllvm[0-9]*')
        [ -n "$std" ] && [ -n "$llvm" ] || cannot "Debian $suite has no rustc with a shared standard library"
        unpack compiler rustc "$std" libstd-rust-dev libstd-rust-dev:arm64 "$llvm" libc6 libgcc-s1 libstdc++6 zlib1g libzstd1 libxml2-16 libedit2 \
            libffi8 libz3-4 libbsd0 libmd0 libtinfo6
    fi
    # Its libraries are newer than this system's, so it runs with its own loader; what it links (build scripts) uses this system's.
    libraries=$root/usr/lib/x86_64-linux-gnu
    cat > "$cache/rustc" <<WRAPPER
#!/bin/sh
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" --argv0 "$root/usr/bin/rustc" "$root/usr/bin/rustc" --sysroot "$root/usr" "\$@"
WRAPPER
    chmod +x "$cache/rustc"
    RUSTC=$cache/rustc
    export RUSTC
    echo "check-aarch64: $("$RUSTC" --version)" >&2
else
    cannot "$target is not installed"
fi

CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/aarch64-check
export CARGO_TARGET_DIR
# shellcheck disable=SC2086  # words of a list
cargo check $packages --all-targets --target $target || exit 1
[ $run = yes ] || exit 0

if command -v aarch64-linux-gnu-gcc > /dev/null && command -v qemu-aarch64-static > /dev/null; then
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
else
    cannot "install gcc-aarch64-linux-gnu and qemu-user-static to run tests"
fi
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER
# shellcheck disable=SC2086
cargo test $packages --lib --target $target || exit 1
