//! Checkpoints that transactions fall into, crashes at each of their steps, and damage.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use fastrand::Rng;

use super::kill::{Acknowledged, lines_of};
use super::{memory, seed, topology};
use crate::checkpoint::{Checkpoints, Step};
use crate::log::{RedoLog, read_log};
use crate::tpcc::{Tpcc, TpccSizes};
use crate::{Abort, OltpError, Transactions};

const SIZES: TpccSizes = TpccSizes {
    warehouses: 1,
    customers: 20,
    items: 50,
    room_orders: 6000,
};
const POOL: &str = "pool";
const LOG: &str = "redo";

/// All rows of a table or entries of an index.
type Contents = Vec<(u64, Vec<u64>)>;

/// Everything that a store has, table by table and index by index.
fn contents(tpcc: &Tpcc) -> Vec<Contents> {
    let (store, mut session) = (tpcc.store(), tpcc.store().session());
    let mut all = Vec::new();
    for (number, table) in store.tables.iter().enumerate() {
        let mut rows = Vec::new();
        for row in 0..table.used_rows() {
            let mut words = vec![0; table.spec().row_words];
            if session.peek(number, row, 0, &mut words) {
                rows.push((u64::from(row), words));
            }
        }
        all.push(rows);
    }
    for index in 0..store.indexes.len() {
        let mut entries = Vec::new();
        session.scan(index, 0, |key, row| {
            entries.push((key, vec![u64::from(row)]));
            true
        });
        all.push(entries);
    }
    all
}

/// Data with a log and a pool in a folder.
fn begun(folder: &Path, seed: u64) -> (Tpcc, Checkpoints) {
    let topology = topology();
    let mut tpcc = Tpcc::load(SIZES, seed, &memory(&topology), 1).expect("loaded");
    let log = RedoLog::create(&folder.join(LOG), &Tpcc::identity(&SIZES, seed)).expect("a log");
    tpcc.store_mut().set_log(Arc::new(log));
    let checkpoints = Checkpoints::create(&folder.join(POOL), tpcc.store()).expect("a pool");
    (tpcc, checkpoints)
}

/// What is in a folder after a crash, with the log to go on with.
fn recovered(folder: &Path, seed: u64) -> Result<(Tpcc, Checkpoints), OltpError> {
    let (topology, log) = (topology(), folder.join(LOG));
    let memory = memory(&topology);
    let checkpoints = Checkpoints::open(&folder.join(POOL))?;
    let (mut tpcc, found) = match checkpoints.newest()? {
        Some(newest) => {
            let found = newest.read_log(&log)?;
            (Tpcc::restore(SIZES, seed, &memory, &newest)?, found)
        }
        None => (Tpcc::load(SIZES, seed, &memory, 1)?, read_log(&log)?),
    };
    tpcc.recover(&log, &found)?;
    let log = RedoLog::resume(&log, &found)?;
    tpcc.store_mut().set_log(Arc::new(log));
    Ok((tpcc, checkpoints))
}

/// Copies the files of a folder as a process that is killed now would leave them: the pool first,
/// since a log that is copied later only has more.
fn crashed(folder: &Path) -> tempfile::TempDir {
    let image = tempfile::tempdir().expect("a folder");
    copy_sparse(&folder.join(POOL), &image.path().join(POOL));
    for file in std::fs::read_dir(folder).expect("a folder") {
        let file = file.expect("a file");
        if file.file_name() != POOL {
            std::fs::copy(file.path(), image.path().join(file.file_name())).expect("copied");
        }
    }
    image
}

/// Copies the parts of a file that are not zero.
fn copy_sparse(from: &Path, to: &Path) {
    let (from, to) = (File::open(from).unwrap(), File::create(to).unwrap());
    let size = from.metadata().unwrap().len();
    to.set_len(size).unwrap();
    let mut block = vec![0; 1 << 16];
    for at in (0..size).step_by(block.len()) {
        let length = block.len().min((size - at) as usize);
        from.read_exact_at(&mut block[..length], at).unwrap();
        if block[..length].iter().any(|byte| *byte != 0) {
            to.write_all_at(&block[..length], at).unwrap();
        }
    }
}

/// Runs transactions of one client, alone.
fn work(tpcc: &Tpcc, rng: &mut Rng, count: usize) {
    let mut session = tpcc.store().session();
    for _ in 0..count {
        let (_, input) = tpcc.draw(rng);
        match tpcc.execute(&mut session, &input) {
            Ok(_) | Err(Abort::RolledBack) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn after_a_crash_at_any_step_all_is_as_it_was_though_transactions_fell_between_the_steps() {
    let seed = seed();
    let mut rng = Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let (tpcc, mut checkpoints) = begun(folder.path(), seed);
    for round in 0..3 {
        work(&tpcc, &mut rng, 50);
        let mut steps = Vec::new();
        let taken = checkpoints.take_with(tpcc.store(), &mut |step| {
            let count = rng.usize(0..100);
            work(&tpcc, &mut rng, count);
            if rng.bool() {
                tpcc.store().merge_all(&mut tpcc.store().no_traffic());
            }
            let image = crashed(folder.path());
            let (found, mut again) = recovered(image.path(), seed).expect("recovered");
            assert!(
                contents(&found) == contents(&tpcc),
                "{step:?}, round {round}"
            );
            assert_eq!(found.check(false), [], "{step:?}, round {round}");
            // It goes on from there, and what the crash has left is no hindrance.
            work(&found, &mut Rng::with_seed(seed), 10);
            again.take(found.store()).expect("another checkpoint");
            let before = contents(&found);
            drop((found, again));
            let (found, _) = recovered(image.path(), seed).expect("recovered");
            assert!(contents(&found) == before, "{step:?}, round {round}");
            assert_eq!(files(image.path()), 2, "{step:?}, round {round}");
            steps.push(step);
        });
        assert!(taken.unwrap().size_bytes > 0);
        assert_eq!((steps.len(), steps.last()), (7, Some(&Step::Dropped)));
        assert_eq!(files(folder.path()), 2, "the pool, and one part of the log");
    }
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn with_clients_at_work_a_crash_at_any_step_loses_nothing_that_was_acknowledged() {
    let seed = seed();
    let folder = tempfile::tempdir().unwrap();
    let (tpcc, mut checkpoints) = begun(folder.path(), seed);
    let (told, over) = (&Mutex::new(String::new()), &AtomicBool::new(false));
    let images = std::thread::scope(|scope| {
        for client in 0..3 {
            let tpcc = &tpcc;
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed.wrapping_add(client));
                let mut session = tpcc.store().session();
                while !over.load(Ordering::Relaxed) {
                    let (_, input) = tpcc.draw(&mut rng);
                    match tpcc.execute(&mut session, &input) {
                        Ok(done) => *told.lock().unwrap() += &lines_of(Some(done)),
                        Err(Abort::Conflict | Abort::RolledBack) => {}
                        Err(Abort::Failed(OltpError::Full { .. })) => break,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        let mut images = Vec::new();
        for _ in 0..3 {
            let taken = checkpoints.take_with(tpcc.store(), &mut |step| {
                let before = told.lock().unwrap().clone();
                images.push((step, before, crashed(folder.path())));
            });
            taken.unwrap();
        }
        over.store(true, Ordering::Relaxed);
        images
    });
    for (step, told, image) in images {
        let (found, _) = recovered(image.path(), seed).expect("recovered");
        assert_eq!(found.check(false), [], "{step:?}");
        let mut acknowledged = Acknowledged::default();
        told.lines().for_each(|line| acknowledged.add(line));
        acknowledged.check(&found);
    }
    let last = contents(&tpcc);
    drop((tpcc, checkpoints));
    let (found, _) = recovered(folder.path(), seed).expect("recovered");
    assert!(
        contents(&found) == last,
        "the rows are those of the clients"
    );
}

#[test]
fn a_log_that_lacks_what_the_checkpoint_needs_is_an_error_and_no_wrong_data() {
    let seed = seed();
    let mut rng = Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let (tpcc, mut checkpoints) = begun(folder.path(), seed);
    let mut at = |step| {
        if step == Step::Reserved {
            work(&tpcc, &mut rng, 100);
        }
    };
    checkpoints.take_with(tpcc.store(), &mut at).unwrap();
    let part = folder.path().join("redo.1");
    let needed = std::fs::metadata(&part).unwrap().len();
    work(&tpcc, &mut rng, 100);
    let reason = |change: &dyn Fn(&Path)| {
        let image = crashed(folder.path());
        change(image.path());
        recovered(image.path(), seed).map(|(tpcc, _)| assert_eq!(tpcc.check(false), []))
    };
    let cut = |bytes| {
        move |folder: &Path| {
            let part = File::options().write(true).open(folder.join("redo.1"));
            part.unwrap().set_len(bytes).unwrap();
        }
    };
    reason(&cut(needed)).expect("what came after is cut, as a crash would");
    let error = reason(&cut(needed - 1)).unwrap_err().to_string();
    assert!(error.contains("that its checkpoint needs"), "{error}");
    let error = reason(&cut(10)).unwrap_err().to_string();
    assert!(error.contains("redo.1: cannot read"), "{error}");
    let gone = |folder: &Path| std::fs::remove_file(folder.join("redo.1")).unwrap();
    let error = reason(&gone).unwrap_err().to_string();
    assert!(error.contains("redo.1: cannot read"), "{error}");
    // A part that others follow has to be whole.
    tpcc.store().log.as_ref().unwrap().begin_part().unwrap();
    work(&tpcc, &mut rng, 20);
    let error = reason(&cut(needed)).unwrap_err().to_string();
    assert!(error.contains("another part follows"), "{error}");
    let gone = |folder: &Path| std::fs::remove_file(folder.join("redo.2")).unwrap();
    let error = reason(&gone).unwrap_err().to_string();
    assert!(
        error.contains("redo.2: cannot read: it is missing"),
        "{error}"
    );
    let error = recovered(crashed(folder.path()).path(), seed ^ 1).unwrap_err();
    assert!(error.to_string().contains("of other data"), "{error}");
}

#[test]
fn a_flipped_byte_of_a_checkpoint_is_found_before_it_is_used() {
    let seed = seed();
    let mut rng = Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let (tpcc, mut checkpoints) = begun(folder.path(), seed);
    work(&tpcc, &mut rng, 200);
    let taken = checkpoints.take(tpcc.store()).unwrap();
    work(&tpcc, &mut rng, 20);
    let whole = contents(&tpcc);
    let image = crashed(folder.path());
    drop((tpcc, checkpoints));
    let bytes = std::fs::read(image.path().join(POOL)).unwrap();
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let mut errors = 0;
    for _ in 0..25 {
        let damaged = crashed(image.path());
        let at = used[rng.usize(..used.len())];
        let pool = File::options().write(true).open(damaged.path().join(POOL));
        let flipped = [bytes[at] ^ (1 << rng.u8(..8))];
        pool.unwrap().write_all_at(&flipped, at as u64).unwrap();
        match recovered(damaged.path(), seed) {
            // Of what the pool has twice, or of a state before the newest.
            Ok((found, _)) => assert!(contents(&found) == whole, "byte {at}"),
            Err(error) => {
                errors += 1;
                let is_own = matches!(error, OltpError::Checkpoint { .. } | OltpError::Log { .. });
                assert!(is_own, "byte {at}: {error}");
            }
        }
    }
    assert!(
        errors > 5,
        "{errors}: {} bytes were written",
        taken.size_bytes
    );
}
