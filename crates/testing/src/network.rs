//! Hosts in network namespaces of this machine, whose links can be cut.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time in which a host must be reached after its link came up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A port on which nothing listens.
const NOBODY: u16 = 1;

/// A network that this process and its [`NetworkHost`]s are on; it is removed on drop.
///
/// Its addresses are from the range for benchmarks of network devices (RFC 2544).
pub struct Network {
    /// The name of its bridge, with which those of its hosts begin.
    name: String,
    prefix: [u8; 3],
    hosts: AtomicU32,
}

impl Network {
    /// A network without hosts.
    ///
    /// # Errors
    /// What is missing on this machine: the program `ip`, or the privilege to use it so.
    pub fn make() -> Result<Network, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let process = std::process::id();
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        // Names of devices have at most 15 characters.
        let network = Network {
            name: format!("tl{process}n{number}"),
            prefix: [198, 18, ((process + number) % 250) as u8],
            hosts: AtomicU32::new(0),
        };
        ip(&["link", "add", &network.name, "type", "bridge"])
            .map_err(|why| format!("networks need root (CAP_NET_ADMIN, CAP_SYS_ADMIN): {why}"))?;
        let own = format!("{}/24", network.address());
        ip(&["addr", "add", &own, "dev", &network.name])?;
        ip(&["link", "set", &network.name, "up"])?;
        Ok(network)
    }

    /// The address of this process on the network.
    pub fn address(&self) -> Ipv4Addr {
        self.numbered(1)
    }

    /// One more host on the network.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn host(&self) -> Result<NetworkHost, String> {
        let number = self.hosts.fetch_add(1, Ordering::Relaxed);
        let host = NetworkHost {
            namespace: format!("{}h{number}", self.name),
            link: format!("{}v{number}", self.name),
            address: self.numbered(number as u8 + 2),
        };
        let NetworkHost {
            namespace, link, ..
        } = &host;
        // The same name on both ends: each is alone in its namespace.
        let both = ["link", "add", link, "type", "veth", "peer", "name", link];
        ip(&["netns", "add", namespace])?;
        ip(&[&both[..], &["netns", namespace]].concat())?;
        ip(&["link", "set", link, "master", &self.name])?;
        let own = format!("{}/24", host.address);
        ip(&["-n", namespace, "addr", "add", &own, "dev", link])?;
        ip(&["-n", namespace, "link", "set", link, "up"])?;
        ip(&["-n", namespace, "link", "set", "lo", "up"])?;
        host.set_link(true)?;
        Ok(host)
    }

    fn numbered(&self, number: u8) -> Ipv4Addr {
        let [a, b, c] = self.prefix;
        Ipv4Addr::new(a, b, c, number)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = ip(&["link", "del", &self.name]);
    }
}

/// A host on a [`Network`]; it is removed on drop, when its processes have ended.
pub struct NetworkHost {
    namespace: String,
    link: String,
    address: Ipv4Addr,
}

impl NetworkHost {
    /// Its address.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// The words before a command that runs it on the host.
    pub fn wrapper(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.namespace]
    }

    /// Waits until packets reach the host: on a busy machine a link that is up passes none for some
    /// seconds.
    fn until_reached(&self) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        loop {
            // Nobody listens, which only the host itself can say.
            let nobody = (self.address, NOBODY).into();
            match TcpStream::connect_timeout(&nobody, PATIENCE) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(()),
                Err(error) if Instant::now() > until => {
                    return Err(format!("{} cannot be reached: {error}", self.address));
                }
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Cuts the host off, or connects it again and waits until packets reach it.
    ///
    /// # Errors
    /// What `ip` says, or that no packet has reached the host for long.
    pub fn set_link(&self, up: bool) -> Result<(), String> {
        let state = if up { "up" } else { "down" };
        ip(&["link", "set", &self.link, state])?;
        if up { self.until_reached() } else { Ok(()) }
    }
}

impl Drop for NetworkHost {
    fn drop(&mut self) {
        let _ = ip(&["link", "del", &self.link]);
        let _ = ip(&["netns", "del", &self.namespace]);
    }
}

fn ip(words: &[&str]) -> Result<(), String> {
    let Output { status, stderr, .. } = Command::new("ip")
        .args(words)
        .output()
        .map_err(|error| format!("no `ip` (iproute2): {error}"))?;
    if status.success() {
        return Ok(());
    }
    let words = words.join(" ");
    let said = String::from_utf8_lossy(&stderr);
    Err(format!("`ip {words}`: {}", said.trim()))
}
