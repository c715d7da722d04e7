//! A memory that several hosts reach through private caches without coherence, and that remembers
//! what a crash could leave.
//!
//! Per host and line it has the words as the host sees them and every version since the line last
//! arrived in memory. A crash may leave any of them, and may mix them word by word: only single
//! words are whole. A dirty line may also be written back at any time without being asked.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::format::Line;
use crate::layout::{EXTENT_BYTES, PoolLayout};
use crate::medium::{Medium, Readable};
use crate::state::{Holder, Joining, MemberEntry, PoolState};
use crate::store::{Place, Tenure, found};
use crate::{PoolError, state};

pub(crate) const POOL: Uuid = Uuid::from_u128(0x706f_6f6c);
pub(crate) const LAYOUT: PoolLayout = PoolLayout {
    extent_bytes: EXTENT_BYTES,
    slot_bytes: 64 << 10,
};
/// Extents of the one member.
pub(crate) const EXTENTS: u64 = 16;

pub(crate) fn place() -> Place<'static> {
    Place {
        pool: POOL,
        layout: LAYOUT,
        path: Path::new("simulated"),
    }
}

#[derive(Debug, Clone, Default)]
struct Cached {
    words: Line,
    /// What the line was after each store since it last arrived.
    versions: Vec<Line>,
    /// How many of the versions the last flush covers.
    flushed: usize,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Device {
    memory: BTreeMap<u64, Line>,
    caches: BTreeMap<usize, BTreeMap<u64, Cached>>,
    /// Writes dirty lines back unasked, if there is one.
    eviction: Option<fastrand::Rng>,
}

impl Device {
    fn cached(&mut self, host: usize, line: u64) -> &mut Cached {
        let words = self.memory.get(&line).copied().unwrap_or_default();
        let cache = self.caches.entry(host).or_default();
        cache.entry(line).or_insert_with(|| Cached {
            words,
            ..Cached::default()
        })
    }

    fn write_back(&mut self, host: usize, line: u64) {
        if let Some(cached) = self.caches.entry(host).or_default().get_mut(&line)
            && !cached.versions.is_empty()
        {
            self.memory.insert(line, cached.words);
            cached.versions.clear();
            cached.flushed = 0;
        }
    }

    /// Everything that a dead process of `host` left in its caches arrives.
    pub(crate) fn write_back_all(&mut self, host: usize) {
        let lines: Vec<u64> = self
            .caches
            .entry(host)
            .or_default()
            .keys()
            .copied()
            .collect();
        lines.iter().for_each(|line| self.write_back(host, *line));
    }

    fn store(&mut self, host: usize, offset: u64, value: u64) {
        let line = offset / 64;
        let cached = self.cached(host, line);
        cached.words[(offset % 64 / 8) as usize] = value;
        let now = cached.words;
        cached.versions.push(now);
        if let Some(rng) = &mut self.eviction
            && rng.u8(..) < 8
        {
            let dirty: Vec<u64> = self.caches[&host].keys().copied().collect();
            let line = dirty[rng.usize(..dirty.len())];
            self.write_back(host, line);
        }
    }

    fn flush(&mut self, host: usize, offset: u64) {
        let cached = self.cached(host, offset / 64);
        cached.flushed = cached.versions.len();
    }

    fn fence(&mut self, host: usize) {
        for (line, cached) in self.caches.entry(host).or_default() {
            if cached.flushed > 0 {
                self.memory
                    .insert(*line, cached.versions[cached.flushed - 1]);
                cached.versions.drain(..cached.flushed);
                cached.flushed = 0;
            }
        }
    }

    /// Whether a flush of `line`, or a fence after all flushes, makes a difference to memory.
    fn would_change(&self, host: usize, line: Option<u64>) -> bool {
        let cache = self.caches.get(&host);
        let lines = cache
            .into_iter()
            .flatten()
            .filter(|(at, cached)| match line {
                Some(line) => **at == line,
                None => cached.flushed > 0,
            });
        { lines }.any(|(at, cached)| {
            let memory = self.memory.get(at).copied().unwrap_or_default();
            cached.versions.iter().any(|version| *version != memory)
        })
    }

    /// What memory may hold after all hosts have crashed: all combinations of words if there are
    /// few, else some, among them "nothing arrived" and "everything arrived".
    pub(crate) fn images(&self, most: usize, rng: &mut fastrand::Rng) -> Vec<Device> {
        let mut choices: Vec<(u64, usize, Vec<u64>)> = Vec::new();
        for (line, cached) in self.caches.values().flatten() {
            let memory = self.memory.get(line).copied().unwrap_or_default();
            for word in 0..8 {
                let mut options = vec![memory[word]];
                options.extend(cached.versions.iter().map(|version| version[word]));
                options.dedup();
                if options.len() > 1 {
                    choices.push((*line, word, options));
                }
            }
        }
        let counts = choices.iter().map(|(_, _, options)| options.len());
        let all = counts.fold(1_usize, |all, options| all.saturating_mul(options));
        let image = |pick: &mut dyn FnMut(usize) -> usize| {
            let mut memory = self.memory.clone();
            for (line, word, options) in &choices {
                memory.entry(*line).or_default()[*word] = options[pick(options.len())];
            }
            Device {
                memory,
                ..Device::default()
            }
        };
        if all <= most {
            let numbered = |mut number: usize| {
                image(&mut |options| {
                    let choice = number % options;
                    number /= options;
                    choice
                })
            };
            return (0..all).map(numbered).collect();
        }
        let mut images = vec![image(&mut |_| 0), image(&mut |options| options - 1)];
        // Some with few words missing, some with few words there: single lines are what decides.
        for n in 2..most {
            let rare = [2, 8, 32][n % 3];
            let last = n % 2 == 0;
            images.push(image(&mut |options| match rng.usize(..rare) {
                0 => rng.usize(..options),
                _ if last => options - 1,
                _ => 0,
            }));
        }
        images
    }
}

/// What a hook sees: number and kind of the operation that was just made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Store,
    Flush,
    Fence,
    Invalidate,
}

type Hook = Box<dyn FnMut(Op, usize) + Send>;

#[derive(Default)]
struct Control {
    count: usize,
    of_kind: [usize; 2],
    hook: Option<Hook>,
    /// Leaves the n-th flush or fence out.
    leave_out: Option<(Op, usize)>,
    /// Whether what was left out would have changed a byte of memory.
    effect: bool,
}

/// The memory, shared by the hosts.
#[derive(Clone, Default)]
pub(crate) struct Sim {
    device: Arc<Mutex<Device>>,
}

impl Sim {
    pub(crate) fn of(device: Device) -> Self {
        Self {
            device: Arc::new(Mutex::new(device)),
        }
    }

    pub(crate) fn device(&self) -> MutexGuard<'_, Device> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn evict_at_random(&self, rng: &mut fastrand::Rng) {
        self.device().eviction = Some(rng.fork());
    }

    pub(crate) fn host(&self, host: usize) -> SimHost {
        SimHost {
            sim: self.clone(),
            host,
            control: Arc::default(),
        }
    }

    /// The newest state as a reader without anything in its caches finds it.
    pub(crate) fn recover(&self) -> Result<PoolState, PoolError> {
        let reader = Sim::of(self.device().clone()).host(usize::MAX);
        place().recover(&reader, false).map(|found| found.state)
    }
}

/// One host's way to the memory.
#[derive(Clone)]
pub(crate) struct SimHost {
    sim: Sim,
    host: usize,
    control: Arc<Mutex<Control>>,
}

impl SimHost {
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `hook` after every operation, counted from 0.
    pub(crate) fn on_every_op(&self, hook: impl FnMut(Op, usize) + Send + 'static) {
        let mut control = self.control();
        *control = Control::default();
        control.hook = Some(Box::new(hook));
    }

    /// Ends the hook and the counting.
    pub(crate) fn let_go(&self) -> usize {
        std::mem::take(&mut *self.control()).count
    }

    /// The `n`-th flush or fence from now on is not made.
    pub(crate) fn leave_out(&self, op: Op, n: usize) {
        let mut control = self.control();
        control.of_kind = [0, 0];
        control.leave_out = Some((op, n));
    }

    /// Whether what was left out would have changed a byte of memory.
    pub(crate) fn had_effect(&self) -> bool {
        self.control().effect
    }

    /// Flushes and fences since the count was reset.
    pub(crate) fn flushes_and_fences(&self) -> [usize; 2] {
        self.control().of_kind
    }

    fn made(&self, op: Op) {
        let (number, hook) = {
            let mut control = self.control();
            let number = control.count;
            control.count += 1;
            (number, control.hook.take())
        };
        // Called without any lock: it may look at the device, or wait for another host.
        if let Some(mut hook) = hook {
            hook(op, number);
            self.control().hook = Some(hook);
        }
    }

    fn is_left_out(&self, op: Op, line: Option<u64>) -> bool {
        let mut control = self.control();
        let kind = usize::from(op == Op::Fence);
        let number = control.of_kind[kind];
        control.of_kind[kind] += 1;
        let left_out = control.leave_out == Some((op, number));
        if left_out {
            control.effect = self.sim.device().would_change(self.host, line);
        }
        left_out
    }
}

impl Readable for SimHost {
    fn load(&self, offset: u64) -> u64 {
        let mut device = self.sim.device();
        device.cached(self.host, offset / 64).words[(offset % 64 / 8) as usize]
    }

    fn invalidate(&self, offset: u64) {
        {
            let mut device = self.sim.device();
            device.write_back(self.host, offset / 64);
            device
                .caches
                .entry(self.host)
                .or_default()
                .remove(&(offset / 64));
        }
        self.made(Op::Invalidate);
    }
}

impl Medium for SimHost {
    fn store(&self, offset: u64, value: u64) {
        self.sim.device().store(self.host, offset, value);
        self.made(Op::Store);
    }

    fn flush(&self, offset: u64) {
        if !self.is_left_out(Op::Flush, Some(offset / 64)) {
            self.sim.device().flush(self.host, offset);
        }
        self.made(Op::Flush);
    }

    fn fence(&self) {
        if !self.is_left_out(Op::Fence, None) {
            self.sim.device().fence(self.host);
        }
        self.made(Op::Fence);
    }
}

/// A manager on a simulated host.
pub(crate) struct Manager {
    pub(crate) host: SimHost,
    pub(crate) tenure: Tenure,
    pub(crate) state: PoolState,
    pub(crate) me: Holder,
}

/// A new pool in a memory full of nothing.
pub(crate) fn new_pool() -> Sim {
    let sim = Sim::default();
    let member = MemberEntry {
        uuid: Uuid::from_u128(1),
        extents: EXTENTS,
        path: "simulated".into(),
        removed: false,
        unknown: BTreeMap::new(),
    };
    let state = PoolState::new(POOL, "a".to_owned(), vec![member]);
    found(&place(), &sim.host(0), &state).unwrap();
    sim
}

pub(crate) fn joining(machine: &str, boot: u64, incarnation: u64) -> Joining {
    Joining {
        name: machine.to_owned(),
        machine: machine.to_owned(),
        boot: boot.to_string(),
        incarnation,
        clean: Some(state::Clean::confirmed_down()),
        manages: None,
        client: false,
    }
}

impl Manager {
    /// Claims the pool and joins, as opening does.
    pub(crate) fn open(host: SimHost, joining: Joining) -> Result<Self, PoolError> {
        let before = place().recover(&host, false)?.state;
        let own = before.host_of(&joining.machine).and_then(|host| host.bank);
        let bank = own.or_else(|| before.free_bank()).expect("a bank");
        let incarnation = joining.incarnation;
        let (tenure, found) = Tenure::claim(&place(), &host, bank, incarnation, false)?;
        let mut manager = Self {
            host,
            tenure,
            state: found.state,
            me: Holder {
                slot: 0,
                incarnation,
            },
        };
        let mut next = manager.state.clone();
        manager.me.slot = next.join(Joining {
            manages: Some(bank),
            ..joining
        })?;
        manager.commit(next)?;
        Ok(manager)
    }

    pub(crate) fn commit(&mut self, next: PoolState) -> Result<(), PoolError> {
        let committed = self
            .tenure
            .commit(&place(), &self.host, &self.state, next)?;
        self.state = committed;
        Ok(())
    }

    /// Commits a state that differs from the last one by a word.
    pub(crate) fn mark(&mut self, word: &str) -> Result<(), PoolError> {
        self.commit(marked(&self.state, word))
    }
}

pub(crate) fn marked(state: &PoolState, word: &str) -> PoolState {
    let mut next = state.clone();
    next.unknown.insert(word.to_owned(), true.into());
    next
}

pub(crate) fn has(state: &PoolState, word: &str) -> bool {
    state.unknown.contains_key(word)
}
