//! What hosts are asked, before anything runs there.

use std::path::{Path, PathBuf};
use tierloom_suite::ErrorKind;
use tierloom_suite::hosts::{HostPlace, HostStep, HostTask, WorkloadSpec};
use tierloom_topology::{SysRoot, Topology};

#[test]
fn a_place_is_one_placement_or_a_pool_with_its_path() {
    let parse = |text: &str| HostPlace::parse(text, None);
    let place = parse("[dram:3,cxl:2]").unwrap();
    assert_eq!(place.placement, "dram:3,cxl:2");
    assert_eq!(place.pool, None);
    let pool = parse("pool:/dev/dax0.0").unwrap();
    assert_eq!(pool.pool.as_deref(), Some(Path::new("/dev/dax0.0")));
    assert_eq!(pool.to_string(), "pool /dev/dax0.0");
    let shared = PathBuf::from("/dev/shm/a.pool");
    let named = HostPlace::parse("pool", Some(&shared)).unwrap();
    assert_eq!(named.pool, Some(shared));
    for (text, part) in [
        ("pool", "pool:PATH"),
        ("dram,cxl", "one placement"),
        ("adaptive", "fixed placement"),
        ("nowhere", "nowhere"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.to_string().contains(part), "{text}: {error}");
        assert_eq!(error.kind(), ErrorKind::BadInput);
    }
}

#[test]
fn a_host_refuses_a_placement_that_it_lacks_and_models_nothing() {
    let task = |placement: &str| HostTask {
        command: "c".into(),
        host: "a".into(),
        workload: WorkloadSpec {
            id: "ssb".into(),
            scale_factor: 0.01,
            seed: 1,
            answers: None,
        },
        queries: vec!["q1.1".into()],
        threads: Some(1),
        repeat: 4,
        pages: "thp".into(),
        plain_operators: false,
        operator_memory: None,
        places: vec![HostPlace::parse(placement, None).unwrap()],
        step: HostStep::Load,
    };
    let topology = || Topology::read(&SysRoot::host());
    let topology = topology().expect("this machine can be described");
    let plan = task("dram").resolve(topology.clone()).unwrap();
    assert!(plan.machines.is_empty());
    let absent = task("900").resolve(topology).unwrap_err();
    assert!(absent.to_string().contains("900"), "{absent}");
    let text = serde_json::to_string(&task("dram")).unwrap();
    assert_eq!(
        serde_json::from_str::<HostTask>(&text).unwrap(),
        task("dram")
    );
}
