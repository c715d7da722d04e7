//! Sources that a pool grows from.

use std::fs;

use tierloom_topology::SysRoot;

use super::*;
use crate::{CreateOptions, OpenOptions, Pool};

const MIB: u64 = 1 << 20;

fn pool(path: &Path) -> Pool {
    let options = CreateOptions {
        file_bytes: 16 * MIB,
        ..CreateOptions::default()
    };
    Pool::create(path, &[], &options, &OpenOptions::default()).unwrap()
}

#[test]
fn a_file_is_made_for_the_pool_and_one_that_is_there_is_not_taken_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let pool = pool(&at("pool"));
    let mut source = FileSource::new(&at("more"), 8 * MIB);
    let added = pool.grow_from(&mut source, false).unwrap();
    assert_eq!(added, [at("more")]);
    assert_eq!(pool.status().members.len(), 2);
    assert_eq!(
        pool.grow_from(&mut source, false).unwrap(),
        [""; 0].map(PathBuf::from)
    );
    fs::write(at("other"), "data").unwrap();
    let mut source = FileSource::new(&at("other"), 8 * MIB);
    let error = pool.grow_from(&mut source, true).unwrap_err();
    assert!(error.to_string().contains("other"), "{error}");
    assert_eq!(fs::read(at("other")).unwrap(), b"data");
    // Too small: it was made for nothing, and is gone.
    let error = pool.grow_from(&mut FileSource::new(&at("tiny"), 4096), false);
    assert!(error.unwrap_err().is_bad_input());
    assert!(!at("tiny").exists());
}

#[test]
fn what_a_pool_cannot_take_goes_back_to_its_source_and_the_rest_with_it() {
    #[derive(Debug)]
    struct Two([Offer; 2], Vec<PathBuf>);
    impl CapacitySource for Two {
        fn describe(&self) -> String {
            "two".to_owned()
        }
        fn offers(&mut self) -> Result<Vec<Offer>, PoolError> {
            Ok(self.0.to_vec())
        }
        fn asked_back(&mut self) -> Result<Vec<PathBuf>, PoolError> {
            Ok(Vec::new())
        }
        fn take_back(&mut self, member: &Path) -> Result<(), PoolError> {
            self.1.push(member.to_owned());
            Ok(())
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let pool = pool(&folder.path().join("pool"));
    let offer = |name: &str, bytes| Offer {
        path: folder.path().join(name),
        file_bytes: Some(bytes),
        tag: None,
    };
    let offers = [offer("small", 4096), offer("large", 8 * MIB)];
    let mut source = Two(offers.clone(), Vec::new());
    pool.grow_from(&mut source, false).unwrap_err();
    assert_eq!(source.1, [offers[0].path.clone(), offers[1].path.clone()]);
    assert_eq!(pool.status().members.len(), 1);
}

#[test]
fn only_devices_that_can_be_mapped_are_offered_once_by_tag_or_all() {
    let root = tempfile::tempdir().unwrap();
    let tag = Uuid::from_u128(7);
    for (name, size, uuid) in [
        ("dax0.0", "268435456", Uuid::nil().to_string()),
        ("dax0.1", "2097152", tag.to_string()),
        ("dax0.2", "0", String::new()),
        ("dax1.0", "4194304", String::new()),
    ] {
        let device = root.path().join("sys/bus/dax/devices").join(name);
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("size"), size).unwrap();
        if !uuid.is_empty() {
            fs::write(device.join("uuid"), uuid).unwrap();
        }
        // dax1.0 belongs to a node.
        let driver = if name == "dax1.0" {
            "kmem"
        } else {
            "device_dax"
        };
        let link = root
            .path()
            .join("sys/bus/dax/drivers")
            .join(driver)
            .join(name);
        fs::create_dir_all(link).unwrap();
    }
    let files = SysRoot::at(root.path());
    let paths =
        |offers: Vec<Offer>| -> Vec<PathBuf> { offers.into_iter().map(|o| o.path).collect() };
    let mut all = DaxSource::new(&files, &[], None);
    let both = ["/dev/dax0.0", "/dev/dax0.1"].map(PathBuf::from);
    assert_eq!(paths(all.offers().unwrap()), both);
    assert_eq!(paths(all.offers().unwrap()), [""; 0].map(PathBuf::from));
    fs::remove_dir(root.path().join("sys/bus/dax/drivers/device_dax/dax0.0")).unwrap();
    assert_eq!(all.asked_back().unwrap(), [both[0].clone()]);
    all.take_back(&both[1]).unwrap();
    assert_eq!(
        paths(all.offers().unwrap()),
        [both[1].clone()],
        "free again"
    );
    let mut tagged = DaxSource::new(&files, &[], Some(tag));
    assert_eq!(paths(tagged.offers().unwrap()), [both[1].clone()]);
    let mut had = DaxSource::new(&files, &both, None);
    assert_eq!(paths(had.offers().unwrap()), [""; 0].map(PathBuf::from));
}
