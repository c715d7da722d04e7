//! Several processes on one pool: clients whose requests are lost, doubled or never answered, that
//! die, and whose manager dies.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tierloom_memory::Clock;

use super::seed::rng;
use crate::{
    ClientEvent, Coherence, Connect, CreateOptions, HostState, ManagerLink, OpenOptions, Pool,
    PoolError, PoolServer, RegionKind, Scratch, ScratchSpec, Spread, TableSpec,
};

const MIB: u64 = 1 << 20;

/// A clock that only sleepers and the test move.
#[derive(Debug, Default)]
struct Hand(Mutex<Duration>);

impl Hand {
    fn forward(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }
}

impl Clock for Hand {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn sleep(&self, how_long: Duration) {
        self.forward(how_long);
    }
}

/// What lies between one client and whoever is the manager.
#[derive(Debug)]
struct Way {
    server: Arc<Mutex<Option<Arc<PoolServer>>>>,
    cut: AtomicBool,
    /// Of 256 messages, so many are lost: before they arrive, or their answers.
    lost: u8,
    rng: Mutex<fastrand::Rng>,
}

impl Way {
    fn loses(&self) -> bool {
        self.rng.lock().unwrap().u8(..) < self.lost
    }
}

#[derive(Debug)]
struct Link(Arc<Way>);

#[derive(Debug)]
struct Net(Arc<Way>);

impl Connect for Net {
    fn connect(&self, address: &str) -> Result<Box<dyn ManagerLink>, String> {
        assert_eq!(address, "here");
        match self.0.cut.load(Ordering::Relaxed) {
            true => Err("no route".to_owned()),
            false => Ok(Box::new(Link(Arc::clone(&self.0)))),
        }
    }
}

impl ManagerLink for Link {
    fn call(&mut self, request: &str) -> Result<String, String> {
        let server = self.0.server.lock().unwrap().clone();
        let server = server.ok_or("connection refused")?;
        if self.0.cut.load(Ordering::Relaxed) || self.0.loses() {
            return Err("lost on the way there".to_owned());
        }
        let answer = server.answer(request);
        match self.0.loses() {
            true => Err("lost on the way back".to_owned()),
            false => Ok(answer),
        }
    }
}

/// A pool with a manager that serves it.
struct Served {
    folder: tempfile::TempDir,
    clock: Arc<Hand>,
    server: Arc<Mutex<Option<Arc<PoolServer>>>>,
    pool: Option<Pool>,
}

impl Served {
    fn new(coherence: Option<Coherence>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(Hand::default());
        let mut served = Self {
            folder,
            clock,
            server: Arc::default(),
            pool: None,
        };
        let create = CreateOptions {
            file_bytes: 64 * MIB,
            coherence,
            overwrite: false,
        };
        let options = served.options("a");
        drop(Pool::create(&served.path(), &[], &create, &options).unwrap());
        served.start();
        served
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("demo.pool")
    }

    fn options(&self, host: &str) -> OpenOptions {
        OpenOptions {
            host: Some(host.to_owned()),
            // Renewed so seldom that a client is silent when the test moves the clock.
            lease: Duration::from_secs(1000),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            ..OpenOptions::default()
        }
    }

    fn start(&mut self) {
        let options = self.options("a");
        let pool = options.open(&self.path()).unwrap();
        let server = pool.serve("here", &options).unwrap();
        *self.server.lock().unwrap() = Some(Arc::new(server));
        self.pool = Some(pool);
    }

    fn stop(&mut self) {
        *self.server.lock().unwrap() = None;
        self.pool = None;
    }

    fn look_after(&self) -> Vec<ClientEvent> {
        let server = self.server.lock().unwrap().clone().unwrap();
        server.look_after().unwrap()
    }

    fn manager(&self) -> &Pool {
        self.pool.as_ref().unwrap()
    }

    fn client_over(&self, host: &str, lost: u8, seed: u64) -> (Pool, Arc<Way>) {
        let way = Arc::new(Way {
            server: Arc::clone(&self.server),
            cut: AtomicBool::new(false),
            lost,
            rng: Mutex::new(fastrand::Rng::with_seed(seed)),
        });
        let net = Arc::new(Net(Arc::clone(&way)));
        // The first request is not sent again.
        let mut joined = self.options(host).join(&self.path(), net.clone());
        while lost > 0 && joined.is_err() {
            joined = self.options(host).join(&self.path(), net.clone());
        }
        (joined.unwrap(), way)
    }

    fn client(&self, host: &str) -> (Pool, Arc<Way>) {
        self.client_over(host, 0, 0)
    }
}

fn seal(pool: &Pool, name: &str, byte: u8, mib: u64) -> Result<(), PoolError> {
    let mut draft = pool.reserve(&TableSpec {
        name: name.to_owned(),
        data_bytes: mib * MIB,
        content_bytes: 200,
        spread: Spread::Pack,
    })?;
    draft.bytes_mut().fill(byte);
    draft.seal(&json!({ "byte": byte }), b"")
}

/// Attaches a table whose bytes are all the same; returns which.
fn read(pool: &Pool, name: &str) -> Result<u8, PoolError> {
    let table = pool.attach(name)?;
    table.verify_all()?;
    let byte = table.bytes()[0];
    assert!(table.bytes().iter().all(|other| *other == byte));
    assert_eq!(table.content()["byte"], byte);
    Ok(byte)
}

fn scratch(pool: &Pool, mib: u64) -> Result<Scratch, PoolError> {
    pool.scratch(&ScratchSpec {
        name: "sort".to_owned(),
        bytes: mib * MIB,
        most_bytes: 64 * MIB,
        spread: Spread::Pack,
    })
}

/// Free bytes; with used and quarantined ones they are the capacity.
fn free(pool: &Pool) -> u64 {
    let space = pool.space();
    let parts = space.free_bytes + space.used_bytes + space.quarantined_bytes;
    assert_eq!(parts, space.capacity_bytes);
    space.free_bytes
}

fn kill(pool: Pool, way: &Way) {
    way.cut.store(true, Ordering::Relaxed);
    // It cannot say that it leaves; with the last use its files are closed, as of a dead process.
    drop(pool);
}

#[test]
fn a_client_removes_a_member_and_others_follow_to_where_its_tables_went() {
    // Every fourth message is lost: removing is asked for again and made once.
    for lost in [0, 64] {
        let served = Served::new(None);
        let (a, _) = served.client_over("a", lost, 1);
        let (b, _) = served.client("a");
        let at = |name: &str| served.folder.path().join(name);
        let options = CreateOptions {
            file_bytes: 80 * MIB,
            ..CreateOptions::default()
        };
        a.add_member(&at("second"), &options).unwrap();
        // More than the first member has room for beside the other table.
        seal(&a, "t", 1, 61).unwrap();
        seal(&b, "u", 2, 4).unwrap();
        assert_eq!(read(&b, "t").unwrap(), 1);
        let reader = b.attach("t").unwrap();
        let refused = a.remove_member(1).unwrap_err();
        assert!(refused.to_string().contains("being read"), "{refused}");
        drop(reader);
        a.grow_member(0, 160 * MIB).unwrap();
        let capacity = a.space().capacity_bytes;
        let removal = a.remove_member(1).unwrap();
        assert_eq!((removal.index, removal.steps.len()), (1, 1));
        assert_eq!(a.space().capacity_bytes, capacity - removal.bytes);
        assert_eq!(std::fs::metadata(at("second")).unwrap().len(), 0);
        for pool in [&a, &b, served.manager()] {
            assert_eq!((read(pool, "t").unwrap(), read(pool, "u").unwrap()), (1, 2));
            assert_eq!(pool.status().members.len(), 1);
        }
        // Another member of the same number is another one for everybody.
        b.add_member(&at("third"), &options).unwrap();
        seal(&b, "v", 3, 70).unwrap();
        assert_eq!(read(&a, "v").unwrap(), 3);
        assert_eq!(a.status().members, b.status().members);
        free(&a);
    }
}

#[test]
fn clients_share_tables_and_have_scratch_memory_of_their_own() {
    let served = Served::new(None);
    let empty = free(served.manager());
    let ((a, _), (b, _)) = (served.client("a"), served.client("a"));
    seal(&a, "t", 1, 4).unwrap();
    assert_eq!(read(&b, "t").unwrap(), 1);
    assert_eq!(read(served.manager(), "t").unwrap(), 1);
    let old = b.attach("t").unwrap();
    seal(&a, "t", 2, 4).unwrap();
    assert_eq!(read(&b, "t").unwrap(), 2);
    assert_eq!(old.bytes()[0], 1, "its reader keeps the version it has");
    drop(old);
    let (mut of_a, mut of_b) = (scratch(&a, 4).unwrap(), scratch(&b, 4).unwrap());
    of_a.bytes_mut().fill(7);
    of_b.bytes_mut().fill(8);
    of_a.grow(4 * MIB).unwrap();
    assert!(of_a.bytes()[..4 << 20].iter().all(|byte| *byte == 7));
    assert!(of_b.bytes().iter().all(|byte| *byte == 8));
    b.drop_table("t").unwrap();
    let gone = read(&a, "t").unwrap_err();
    assert!(matches!(gone, PoolError::UnknownTable { .. }), "{gone}");
    drop((of_a, of_b));
    let names = served.look_after();
    assert!(
        matches!(&names[..], [ClientEvent::Joined(_), ClientEvent::Joined(_)]),
        "{names:?}"
    );
    drop((a, b));
    let names = served.look_after();
    assert!(
        matches!(&names[..], [ClientEvent::Left(_), ClientEvent::Left(_)]),
        "{names:?}"
    );
    assert_eq!(served.manager().status().hosts.len(), 1);
    assert_eq!(free(served.manager()), empty);
}

#[test]
fn what_a_dead_client_had_is_free_and_what_a_living_one_has_is_not() {
    for coherence in [None, Some(Coherence::None)] {
        let served = Served::new(coherence);
        let empty = free(served.manager());
        let ((dead, way), (alive, _)) = (served.client("a"), served.client("a"));
        seal(&dead, "t", 1, 4).unwrap();
        let read_by_dead = dead.attach("t").unwrap();
        let lost = scratch(&dead, 6).unwrap();
        let kept = scratch(&alive, 6).unwrap();
        let draft = dead.reserve(&TableSpec {
            name: "u".to_owned(),
            data_bytes: 4 * MIB,
            content_bytes: 100,
            spread: Spread::Pack,
        });
        alive.drop_table("t").unwrap();
        let _ = served.look_after();
        way.cut.store(true, Ordering::Relaxed);
        drop((lost, read_by_dead, draft));
        kill(dead, &way);
        let events = served.look_after();
        assert!(matches!(&events[..], [ClientEvent::Ended(_)]), "{events:?}");
        assert_eq!(free(served.manager()), empty - 6 * MIB);
        drop(kept);
        assert_eq!(free(served.manager()), empty);
    }
}

#[test]
fn a_full_pool_is_searched_for_dead_clients_first() {
    let served = Served::new(None);
    let (dead, way) = served.client("a");
    let mib = free(&dead) / MIB;
    let all = scratch(&dead, mib).unwrap();
    let (alive, _) = served.client("a");
    let refused = scratch(&alive, 2).unwrap_err();
    let PoolError::Full { free_bytes, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!(free_bytes, 0);
    way.cut.store(true, Ordering::Relaxed);
    drop(all);
    kill(dead, &way);
    assert!(scratch(&alive, mib).is_ok());
}

#[test]
fn clients_survive_their_manager() {
    let mut served = Served::new(None);
    let (a, _) = served.client("a");
    seal(&a, "t", 3, 4).unwrap();
    let table = a.attach("t").unwrap();
    let mut memory = scratch(&a, 4).unwrap();
    memory.bytes_mut().fill(9);
    let before = free(&a);
    served.stop();
    table.verify_all().unwrap();
    let refused = scratch(&a, 2).unwrap_err();
    assert!(matches!(refused, PoolError::NotServed { .. }), "{refused}");
    // A manager that comes and goes without serving leaves living clients what they have.
    let between = served.options("a").open(&served.path()).unwrap();
    assert_eq!(free(&between), before);
    drop(between);
    served.start();
    assert_eq!(free(&a), before);
    memory.grow(2 * MIB).unwrap();
    assert!(memory.bytes()[..4 << 20].iter().all(|byte| *byte == 9));
    assert_eq!(read(&a, "t").unwrap(), 3);
    seal(&a, "t", 4, 4).unwrap();
    assert_eq!((table.bytes()[0], read(&a, "t").unwrap()), (3, 4));
}

#[test]
fn clients_survive_a_takeover_by_another_host() {
    let mut served = Served::new(Some(Coherence::None));
    let (b, _) = served.client("b");
    seal(&b, "t", 3, 4).unwrap();
    let mut memory = scratch(&b, 4).unwrap();
    memory.bytes_mut().fill(9);
    let before = free(&b);
    served.stop();
    let refused = served.options("c").open(&served.path()).unwrap_err();
    assert!(matches!(refused, PoolError::OtherHome { .. }), "{refused}");
    let options = OpenOptions {
        take_over: true,
        ..served.options("c")
    };
    let pool = options.open(&served.path()).unwrap();
    let server = pool.serve("here", &options).unwrap();
    *served.server.lock().unwrap() = Some(Arc::new(server));
    assert_eq!(free(&b), before);
    memory.grow(2 * MIB).unwrap();
    assert!(memory.bytes()[..4 << 20].iter().all(|byte| *byte == 9));
    seal(&b, "t", 4, 4).unwrap();
    assert_eq!((read(&b, "t").unwrap(), read(&pool, "t").unwrap()), (4, 4));
}

#[test]
fn of_two_clients_that_race_for_the_last_extent_one_gets_it() {
    let served = Served::new(None);
    let rest = scratch(served.manager(), free(served.manager()) / MIB - 2).unwrap();
    let clients = [served.client("a"), served.client("a")];
    let start = std::sync::Barrier::new(2);
    let race = |pool: &Pool| {
        start.wait();
        let mine = scratch(pool, 2);
        // Kept until both have tried.
        start.wait();
        match mine {
            Ok(_) => true,
            Err(PoolError::Full { .. }) => false,
            Err(other) => panic!("{other}"),
        }
    };
    let mut won = [0, 0];
    for _ in 0..1000 {
        let results = std::thread::scope(|scope| {
            let [one, other] = &clients;
            let other = scope.spawn(|| race(&other.0));
            [race(&one.0), other.join().unwrap()]
        });
        assert_ne!(results[0], results[1], "one of them, and not both");
        won.iter_mut()
            .zip(results)
            .for_each(|(won, has)| *won += u32::from(has));
        assert_eq!(free(served.manager()), 2 * MIB);
    }
    println!("won {won:?}");
    drop(rest);
}

#[test]
fn a_client_that_ends_does_not_wait_for_a_manager_that_is_gone() {
    let mut served = Served::new(None);
    let (a, _) = served.client("a");
    for name in ["t", "u", "v"] {
        seal(&a, name, 1, 2).unwrap();
    }
    let tables = ["t", "u", "v"].map(|name| a.attach(name).unwrap());
    let memory = scratch(&a, 2).unwrap();
    served.stop();
    let before = served.clock.now();
    drop((tables, memory));
    drop(a);
    let waited = served.clock.now() - before;
    assert!(waited <= Duration::from_secs(2), "{waited:?}");
    served.start();
    assert_eq!(served.manager().status().hosts.len(), 1);
    assert_eq!(served.manager().space().used_bytes, 3 * 4 * MIB);
}

#[test]
fn a_silent_client_of_another_host_is_fenced_and_what_it_wrote_is_not_reused() {
    let served = Served::new(Some(Coherence::None));
    let empty = free(served.manager());
    let (b, _) = served.client("b");
    seal(&b, "t", 5, 4).unwrap();
    let reading = b.attach("t").unwrap();
    let memory = scratch(&b, 6).unwrap();
    let with_table = free(served.manager()) + 6 * MIB;
    assert!(matches!(&served.look_after()[..], [ClientEvent::Joined(_)]));
    served.clock.forward(Duration::from_secs(1999));
    assert_eq!(served.look_after(), []);
    served.clock.forward(Duration::from_secs(2));
    let events = served.look_after();
    assert!(
        matches!(&events[..], [ClientEvent::Fenced(_)]),
        "{events:?}"
    );
    let space = served.manager().space();
    assert_eq!(space.quarantined_bytes, 6 * MIB);
    served.manager().drop_table("t").unwrap();
    // It may still be reading.
    assert_eq!(free(served.manager()) + 6 * MIB, with_table);
    assert_eq!(reading.bytes()[0], 5);
    let refused = scratch(&b, 2).unwrap_err();
    assert!(matches!(refused, PoolError::StaleHost { .. }), "{refused}");
    // While it lives, another process of its host must not free what it can write to.
    let (second, _) = served.client("b");
    assert_eq!(served.manager().space().quarantined_bytes, 6 * MIB);
    drop((reading, memory, second));
    drop(b);
    let (_third, _) = served.client("b");
    assert_eq!(free(served.manager()), empty);
    let hosts = served.manager().status().hosts;
    assert!(hosts.iter().all(|host| host.state == HostState::Up));
}

#[test]
fn requests_that_are_lost_or_doubled_are_made_once() {
    let mut rng = rng("requests_that_are_lost_or_doubled_are_made_once");
    let served = Served::new(None);
    let empty = free(served.manager());
    let clients: Vec<(Pool, Arc<Way>)> = (0..3)
        .map(|_| served.client_over("a", 32, rng.u64(..)))
        .collect();
    let mut held: Vec<Vec<Scratch>> = clients.iter().map(|_| Vec::new()).collect();
    let mut tables = std::collections::BTreeMap::new();
    for round in 0..400_u32 {
        let who = rng.usize(..clients.len());
        let pool = &clients[who].0;
        match rng.u8(..6) {
            0 | 1 if free(pool) >= 2 * MIB => held[who].push(scratch(pool, 2).unwrap()),
            2 if !held[who].is_empty() => {
                let last = held[who].len() - 1;
                if free(pool) >= 2 * MIB {
                    held[who][last].grow(2 * MIB).unwrap();
                }
            }
            3 if !held[who].is_empty() => drop(held[who].remove(0)),
            4 if free(pool) >= 6 * MIB => {
                let (name, byte) = (format!("t{}", rng.u8(..2)), round as u8);
                seal(pool, &name, byte, 2).unwrap();
                tables.insert(name, byte);
            }
            _ => {
                for (name, byte) in &tables {
                    assert_eq!(read(pool, name).unwrap(), *byte);
                }
            }
        }
        let scratch_bytes: u64 = held.iter().flatten().map(Scratch::size_bytes).sum();
        let regions = served.manager().status().regions;
        let active = regions.iter().filter(|r| r.kind == RegionKind::Scratch);
        assert_eq!(active.map(|r| r.bytes).sum::<u64>(), scratch_bytes);
        let sealed = regions.iter().filter(|r| r.kind == RegionKind::Table);
        assert_eq!(sealed.count(), tables.len());
    }
    held.clear();
    for name in tables.keys() {
        served.manager().drop_table(name).unwrap();
    }
    assert_eq!(free(served.manager()), empty);
}

#[test]
fn a_pool_that_nobody_serves_says_what_to_do() {
    let mut served = Served::new(None);
    let path = served.path();
    let net = || {
        Arc::new(Net(Arc::new(Way {
            server: Arc::clone(&served.server),
            cut: AtomicBool::new(true),
            lost: 0,
            rng: Mutex::new(fastrand::Rng::with_seed(0)),
        })))
    };
    let text = |result: Result<Pool, PoolError>| result.unwrap_err().to_string();
    let unreachable = text(served.options("a").open_or_join(&path, net()));
    assert!(unreachable.contains("no route"), "{unreachable}");
    let net = net();
    served.stop();
    let holder = served.options("a").open(&path).unwrap();
    let managed = text(served.options("a").open_or_join(&path, net.clone()));
    assert!(managed.contains("pool serve"), "{managed}");
    drop(holder);
    let opened = served.options("a").open_or_join(&path, net);
    assert!(
        opened
            .unwrap()
            .serve("here", &OpenOptions::default())
            .is_ok()
    );
}

/// Requests that arrive again, at any later time.
#[derive(Debug)]
struct Recorder(Arc<PoolServer>, Arc<Mutex<Vec<String>>>);

#[derive(Debug)]
struct Recorded(Arc<PoolServer>, Arc<Mutex<Vec<String>>>);

impl Connect for Recorder {
    fn connect(&self, _: &str) -> Result<Box<dyn ManagerLink>, String> {
        Ok(Box::new(Recorded(Arc::clone(&self.0), Arc::clone(&self.1))))
    }
}

impl ManagerLink for Recorded {
    fn call(&mut self, request: &str) -> Result<String, String> {
        self.1.lock().unwrap().push(request.to_owned());
        Ok(self.0.answer(request))
    }
}

#[test]
fn requests_that_arrive_again_after_later_ones_change_nothing() {
    let served = Served::new(None);
    let server = served.server.lock().unwrap().clone().unwrap();
    let sent = Arc::new(Mutex::new(Vec::new()));
    let recorder = Arc::new(Recorder(Arc::clone(&server), Arc::clone(&sent)));
    let options = served.options("a");
    let client = options.join(&served.path(), recorder).unwrap();
    seal(&client, "t", 1, 2).unwrap();
    let mut memory = scratch(&client, 2).unwrap();
    memory.grow(2 * MIB).unwrap();
    client.grow_member(0, 96 * MIB).unwrap();
    client.shrink_member(0, 64 * MIB).unwrap();
    client.drop_table("t").unwrap();
    let before = served.manager().status();
    let all = sent.lock().unwrap().clone();
    assert!(all.len() >= 8, "{all:#?}");
    for (index, request) in all.iter().enumerate() {
        let answer = server.answer(request);
        let again = index == 0 || index == all.len() - 1;
        assert_eq!(
            !answer.starts_with(r#"{"refused""#),
            again,
            "{index}: {answer}"
        );
    }
    let after = served.manager().status();
    assert_eq!((after.space, after.regions), (before.space, before.regions));
    assert_eq!(after.members, before.members);
    drop(memory);
}

#[test]
fn nonsense_is_answered_with_an_error() {
    let served = Served::new(None);
    let server = served.server.lock().unwrap().clone().unwrap();
    let before = served.manager().status().generation;
    let uuid = served.manager().status().uuid;
    let ask = |protocol: u32, pool: &str, ask: serde_json::Value| {
        let by = json!({ "slot": 77, "incarnation": 1 });
        let request =
            json!({ "protocol": protocol, "pool": pool, "by": by, "number": 1, "ask": ask });
        server.answer(&request.to_string())
    };
    let own = uuid.to_string();
    let grow = json!({ "grow": { "index": 0, "bytes": 1_u64 << 40 } });
    let drop = json!({ "change": { "changes": [{ "drop": { "region": 1 } }] } });
    let answers = [
        server.answer(""),
        server.answer("{}"),
        ask(2, &own, grow.clone()),
        ask(1, "6a1b8bb2-0000-0000-0000-000000000000", grow.clone()),
        ask(1, &own, json!({ "unknown": {} })),
        ask(1, &own, grow),
        ask(1, &own, drop),
    ];
    for answer in answers {
        assert!(answer.starts_with(r#"{"refused""#), "{answer}");
    }
    assert_eq!(served.manager().status().generation, before);
    assert!(Path::new(&served.path()).exists());
}
