//! A network link between two guests, carried by a Unix socket of the host.

use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::LabError;

/// The size of `sun_path` in Linux is 108 bytes, of which one is the final NUL.
const LONGEST_SOCKET_PATH: usize = 107;

/// One end of a network link between two guests.
///
/// It needs no privilege on the host and reaches nothing but the other guest. One end listens; the
/// other connects and retries until it succeeds, so the guests may start in any order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestLink {
    /// Path of the socket on the host, the same for both ends, at most 107 bytes long.
    ///
    /// A stale socket there is replaced.
    pub socket: PathBuf,
    /// Whether this end creates the socket and listens. Exactly one of the two ends must.
    pub listen: bool,
    /// The guest's IPv4 address on `eth0` with its prefix length, such as `10.7.0.1/24`.
    pub address: String,
}

impl GuestLink {
    /// The end that creates `socket` and listens on it.
    pub fn listen(socket: impl Into<PathBuf>, address: impl Into<String>) -> GuestLink {
        GuestLink {
            socket: socket.into(),
            listen: true,
            address: address.into(),
        }
    }

    /// The end that connects to `socket`.
    pub fn connect(socket: impl Into<PathBuf>, address: impl Into<String>) -> GuestLink {
        GuestLink {
            listen: false,
            ..GuestLink::listen(socket, address)
        }
    }

    pub(crate) fn check(&self) -> Result<(), LabError> {
        let bad = |what: String| Err(LabError::BadGuest { what });
        if self.parsed().is_none() {
            return bad(format!(
                "{:?} is no address of a guest; it needs one such as 10.7.0.1/24, with 1 to 30 bits of network",
                self.address
            ));
        }
        let length = self.socket.as_os_str().as_bytes().len();
        if !(1..=LONGEST_SOCKET_PATH).contains(&length) {
            return bad(format!(
                "the socket {} has a path of {length} bytes; it needs 1 to {LONGEST_SOCKET_PATH}, so put it in a folder with a short name",
                self.socket.display()
            ));
        }
        Ok(())
    }

    /// The Ethernet address: locally administered, and derived from the IPv4 address so that two
    /// guests with different IPv4 addresses never share one.
    pub(crate) fn mac(&self) -> String {
        let [a, b, c, d] = self
            .parsed()
            .map_or([0; 4], |(address, _)| address.octets());
        format!("52:54:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
    }

    fn parsed(&self) -> Option<(Ipv4Addr, u8)> {
        let (address, bits) = self.address.split_once('/')?;
        let digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = bits.parse().ok().filter(|_| digits)?;
        let address: Ipv4Addr = address.parse().ok()?;
        let usable = !address.is_unspecified() && !address.is_multicast();
        ((1..=30).contains(&bits) && usable).then_some((address, bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_sockets_that_cannot_work_are_refused_before_the_boot() {
        let long = format!("/{}", "s".repeat(LONGEST_SOCKET_PATH));
        for (socket, address, part) in [
            ("/s", "10.7.0.1", "10.7.0.1/24"),
            ("/s", "10.7.0.256/24", "10.7.0.256"),
            ("/s", "10.7.0.1/+24", "/+24"),
            ("/s", "10.7.0.1/31", "/31"),
            ("/s", "0.0.0.0/8", "0.0.0.0"),
            ("/s", "10.7.0.1/24; reboot", "reboot"),
            ("", "10.7.0.1/24", "0 bytes"),
            (long.as_str(), "10.7.0.1/24", "108 bytes"),
        ] {
            let error = GuestLink::listen(socket, address)
                .check()
                .unwrap_err()
                .to_string();
            assert!(error.contains(part), "{part}: {error}");
        }
        GuestLink::connect(&long[1..], "10.7.0.2/24")
            .check()
            .unwrap();
    }

    #[test]
    fn two_addresses_never_have_one_ethernet_address() {
        let mac = |address: &str| GuestLink::listen("/s", address).mac();
        assert_eq!(mac("10.7.0.1/24"), "52:54:0a:07:00:01");
        assert_ne!(mac("10.7.0.1/24"), mac("10.7.0.2/24"));
    }
}
