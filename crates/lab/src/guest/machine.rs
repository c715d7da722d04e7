//! QEMU's command line for each guest kind. It is only computed here; `run::qemu` starts the
//! process.

use std::path::Path;

use super::{CXL_WINDOW_BYTES, GuestKind, GuestLink, GuestOptions};

/// Name of the virtio port that carries the results.
pub(crate) const PORT_NAME: &str = "tierloom.results";
/// Serial number of the CXL device.
///
/// The guest finds the device by it, because memdev numbers vary from boot to boot.
pub(crate) const CXL_SERIAL: u64 = 0x7163;

/// HMAT entries as (node, latency in ns, bandwidth in GiB/s).
const HMAT: [(u32, u32, u32); 2] = [(0, 100, 100), (1, 250, 30)];
/// SLIT distance between the nodes (10 is local).
const DISTANCE: u32 = 30;
/// Interval at which the connecting end of a link retries.
const RECONNECT_MS: u32 = 100;

/// Files that QEMU boots from, and the file that the results port writes to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Images<'a> {
    pub(crate) kernel: &'a Path,
    pub(crate) initramfs: &'a Path,
    pub(crate) results: &'a Path,
}

/// QEMU's arguments.
///
/// Guests are always emulated, also where KVM is available: under KVM the CXL window cannot hold
/// ordinary data, and guests must behave alike on every host.
pub(crate) fn qemu_args(options: &GuestOptions, images: Images<'_>) -> Vec<String> {
    let mut args = Vec::new();
    let mut push = |flag: &str, value: String| args.extend([flag.to_owned(), value]);
    let machine = match options.kind {
        GuestKind::TwoNodes => "q35,hmat=on",
        GuestKind::Cxl | GuestKind::CxlDevdax | GuestKind::CxlDcd => "q35,cxl=on",
    };
    push("-machine", machine.into());
    let threads = if options.thread_per_cpu {
        "multi"
    } else {
        "single"
    };
    push("-accel", format!("tcg,thread={threads}"));
    // With the hypervisor bit set, the kernel refuses CXL regions (it does not flush caches on
    // commit). Without erms and fsrm it copies and clears memory with wide stores, which TCG runs
    // several times faster than `rep stosb`.
    push("-cpu", "max,hypervisor=off,erms=off,fsrm=off".into());
    push("-smp", options.cpus.to_string());
    push("-display", "none".into());
    push("-monitor", "none".into());
    // stdio is the console that people watch; the results have a port of their own below, because
    // kernel messages mix with everything on the console.
    push("-serial", "stdio".into());
    push("-device", "virtio-serial-pci".into());
    push(
        "-chardev",
        format!("file,id=results,path={}", escape(images.results)),
    );
    push(
        "-device",
        format!("virtserialport,chardev=results,name={PORT_NAME}"),
    );
    push("-kernel", images.kernel.display().to_string());
    push("-initrd", images.initramfs.display().to_string());
    push("-append", kernel_line(options));
    match options.kind {
        GuestKind::TwoNodes => two_nodes(options, &mut push),
        GuestKind::Cxl | GuestKind::CxlDevdax | GuestKind::CxlDcd => cxl(options, &mut push),
    }
    if let Some(socket) = &options.qmp {
        let path = escape(socket);
        push("-qmp", format!("unix:{path},server=on,wait=off"));
    }
    if let Some(end) = &options.link {
        link(end, &mut push);
    }
    args.extend([
        "-nodefaults".into(),
        "-no-user-config".into(),
        "-no-reboot".into(),
    ]);
    args
}

fn kernel_line(options: &GuestOptions) -> String {
    let mut words = vec![
        "console=ttyS0",
        "quiet",
        // Reboot at once after a panic, which ends QEMU because of -no-reboot.
        "panic=-1",
        // `kmem` then brings the CXL memory online without a further step, and as movable.
        "memhp_default_state=online_movable",
    ];
    if options.kind == GuestKind::CxlDcd {
        // Else the kernel refuses to let a program map the registers of a device.
        words.push("iomem=relaxed");
    }
    words.extend(options.kernel_args.iter().map(String::as_str));
    words.join(" ")
}

fn two_nodes(options: &GuestOptions, push: &mut dyn FnMut(&str, String)) {
    push("-m", mib(options.dram_bytes + options.slow_bytes));
    push(
        "-object",
        format!(
            "memory-backend-ram,id=ram0,size={}",
            mib(options.dram_bytes)
        ),
    );
    push(
        "-object",
        format!(
            "memory-backend-ram,id=ram1,size={}",
            mib(options.slow_bytes)
        ),
    );
    push(
        "-numa",
        format!("node,nodeid=0,memdev=ram0,cpus=0-{}", options.cpus - 1),
    );
    push("-numa", "node,nodeid=1,memdev=ram1,initiator=0".into());
    push("-numa", format!("dist,src=0,dst=1,val={DISTANCE}"));
    for (node, latency_ns, bandwidth_gib) in HMAT {
        let entry = format!("hmat-lb,initiator=0,target={node},hierarchy=memory");
        push(
            "-numa",
            format!("{entry},data-type=access-latency,latency={latency_ns}"),
        );
        push(
            "-numa",
            format!("{entry},data-type=access-bandwidth,bandwidth={bandwidth_gib}G"),
        );
    }
}

fn cxl(options: &GuestOptions, push: &mut dyn FnMut(&str, String)) {
    // Without room for memory hot-plug above RAM, QEMU 10.0 places the CXL window at an address at
    // which the guest crashes when the region comes online.
    push(
        "-m",
        format!(
            "{},maxmem={},slots=8",
            mib(options.dram_bytes),
            mib(options.dram_bytes + 2 * CXL_WINDOW_BYTES)
        ),
    );
    let size = mib(options.slow_bytes);
    let memory = match &options.cxl_backing {
        None => format!("memory-backend-ram,id=cxlmem0,size={size}"),
        Some(path) => format!(
            "memory-backend-file,id=cxlmem0,size={size},share=on,mem-path={}",
            escape(path)
        ),
    };
    push("-object", memory);
    push("-device", "pxb-cxl,bus_nr=12,bus=pcie.0,id=cxl.1".into());
    push(
        "-device",
        "cxl-rp,port=0,bus=cxl.1,id=rp0,chassis=0,slot=2".into(),
    );
    let memory = match options.kind {
        GuestKind::CxlDcd => "volatile-dc-memdev=cxlmem0,num-dc-regions=2",
        _ => "volatile-memdev=cxlmem0",
    };
    push(
        "-device",
        format!("cxl-type3,bus=rp0,{memory},id=type3,sn={CXL_SERIAL}"),
    );
    push(
        "-M",
        format!(
            "cxl-fmw.0.targets.0=cxl.1,cxl-fmw.0.size={}",
            mib(CXL_WINDOW_BYTES)
        ),
    );
}

/// Adds a network card connected to the link's socket.
///
/// `romfile=` is empty because QEMU's package does not contain the card's boot ROM. The card is on
/// the main PCIe bus, away from the CXL devices.
fn link(end: &GuestLink, push: &mut dyn FnMut(&str, String)) {
    let role = if end.listen {
        "server=on".to_owned()
    } else {
        format!("server=off,reconnect-ms={RECONNECT_MS}")
    };
    push(
        "-netdev",
        format!(
            "stream,id=link0,{role},addr.type=unix,addr.path={}",
            escape(&end.socket)
        ),
    );
    push(
        "-device",
        format!(
            "virtio-net-pci,netdev=link0,bus=pcie.0,romfile=,mac={}",
            end.mac()
        ),
    );
}

fn mib(bytes: u64) -> String {
    format!("{}M", bytes >> 20)
}

/// QEMU's option lists end a value at a comma; a doubled comma is a literal one.
fn escape(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: GuestKind) -> String {
        line_of(GuestOptions::new(kind))
    }

    fn line_of(mut options: GuestOptions) -> String {
        options.kernel_args.push("numa_balancing=disable".into());
        let images = Images {
            kernel: Path::new("/k"),
            initramfs: Path::new("/i"),
            results: Path::new("/a,b/r"),
        };
        qemu_args(&options, images).join(" ")
    }

    const COMMON: &str = "-accel tcg,thread=single -cpu max,hypervisor=off,erms=off,fsrm=off -smp 2 -display none -monitor none -serial stdio \
        -device virtio-serial-pci -chardev file,id=results,path=/a,,b/r -device virtserialport,chardev=results,name=tierloom.results \
        -kernel /k -initrd /i -append console=ttyS0 quiet panic=-1 memhp_default_state=online_movable numa_balancing=disable";

    #[test]
    fn two_node_guest_has_one_cpuless_node_with_its_hmat() {
        let expected = format!(
            "-machine q35,hmat=on {COMMON} -m 2560M -object memory-backend-ram,id=ram0,size=1536M -object memory-backend-ram,id=ram1,size=1024M \
             -numa node,nodeid=0,memdev=ram0,cpus=0-1 -numa node,nodeid=1,memdev=ram1,initiator=0 -numa dist,src=0,dst=1,val=30 \
             -numa hmat-lb,initiator=0,target=0,hierarchy=memory,data-type=access-latency,latency=100 \
             -numa hmat-lb,initiator=0,target=0,hierarchy=memory,data-type=access-bandwidth,bandwidth=100G \
             -numa hmat-lb,initiator=0,target=1,hierarchy=memory,data-type=access-latency,latency=250 \
             -numa hmat-lb,initiator=0,target=1,hierarchy=memory,data-type=access-bandwidth,bandwidth=30G -nodefaults -no-user-config -no-reboot"
        );
        assert_eq!(line(GuestKind::TwoNodes), expected);
    }

    #[test]
    fn cxl_guest_has_a_type_3_device_behind_a_window() {
        let expected = format!(
            "-machine q35,cxl=on {COMMON} -m 2048M,maxmem=10240M,slots=8 -object memory-backend-ram,id=cxlmem0,size=512M -device pxb-cxl,bus_nr=12,bus=pcie.0,id=cxl.1 \
             -device cxl-rp,port=0,bus=cxl.1,id=rp0,chassis=0,slot=2 -device cxl-type3,bus=rp0,volatile-memdev=cxlmem0,id=type3,sn=29027 \
             -M cxl-fmw.0.targets.0=cxl.1,cxl-fmw.0.size=4096M -nodefaults -no-user-config -no-reboot"
        );
        assert_eq!(line(GuestKind::Cxl), expected);
        assert_eq!(line(GuestKind::CxlDevdax), expected);
    }

    #[test]
    fn a_device_of_dynamic_capacity_differs_in_its_memory_and_can_be_commanded() {
        let mut options = GuestOptions::new(GuestKind::CxlDcd);
        options.qmp = Some("/a,b/q".into());
        let expected = line(GuestKind::Cxl)
            .replace(
                "volatile-memdev=cxlmem0",
                "volatile-dc-memdev=cxlmem0,num-dc-regions=2",
            )
            .replace(
                "memhp_default_state=online_movable ",
                "memhp_default_state=online_movable iomem=relaxed ",
            )
            .replace(
                " -nodefaults",
                " -qmp unix:/a,,b/q,server=on,wait=off -nodefaults",
            );
        assert_eq!(line_of(options), expected);
    }

    #[test]
    fn only_guests_that_ask_for_it_are_emulated_by_several_threads() {
        let mut options = GuestOptions::new(GuestKind::TwoNodes);
        assert_eq!(options.threads(), 1);
        options.thread_per_cpu = true;
        assert_eq!(options.threads(), 2);
        let expected = line(GuestKind::TwoNodes).replace("thread=single", "thread=multi");
        assert_eq!(line_of(options), expected);
    }

    #[test]
    fn a_backed_device_is_shared_and_nothing_else_changes() {
        let mut options = GuestOptions::new(GuestKind::CxlDevdax);
        options.cxl_backing = Some("/a,b/device".into());
        let expected = line(GuestKind::CxlDevdax).replace(
            "memory-backend-ram,id=cxlmem0,size=512M",
            "memory-backend-file,id=cxlmem0,size=512M,share=on,mem-path=/a,,b/device",
        );
        assert_eq!(line_of(options), expected);
    }

    #[test]
    fn one_end_of_a_link_listens_and_the_other_tries_until_it_does() {
        let with = |link: GuestLink| {
            let mut options = GuestOptions::new(GuestKind::TwoNodes);
            options.link = Some(link);
            line_of(options)
        };
        let plain = line(GuestKind::TwoNodes);
        for (link, netdev, mac) in [
            (
                GuestLink::listen("/a,b", "10.7.0.1/24"),
                "server=on",
                "52:54:0a:07:00:01",
            ),
            (
                GuestLink::connect("/a,b", "10.7.0.2/24"),
                "server=off,reconnect-ms=100",
                "52:54:0a:07:00:02",
            ),
        ] {
            let card = format!(
                " -netdev stream,id=link0,{netdev},addr.type=unix,addr.path=/a,,b -device virtio-net-pci,netdev=link0,bus=pcie.0,romfile=,mac={mac} -nodefaults"
            );
            assert_eq!(with(link), plain.replace(" -nodefaults", &card));
        }
    }
}
