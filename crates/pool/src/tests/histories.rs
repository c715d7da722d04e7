//! Random histories of three hosts, with crashes, lost answers and takeovers, against a model.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::seed::rng;
use super::sim::{EXTENTS, LAYOUT, Manager, Sim, joining, new_pool};
use crate::PoolError;
use crate::state::{
    Actor, Answer, Change, Clean, Holder, HostState, ManifestRef, MemberEntry, PoolState,
    RegionKind, RegionState, Spread,
};

const HOSTS: [&str; 3] = ["a", "b", "c"];

type Reader = (u16, u64);

#[derive(Debug, Clone, PartialEq)]
struct Region {
    state: RegionState,
    name: String,
    version: u64,
    extents: u64,
    owner: Option<Reader>,
    pins: BTreeMap<Reader, u64>,
}

#[derive(Debug, Clone, PartialEq)]
struct Host {
    incarnation: u64,
    fenced: bool,
}

/// What the pool must be, by counting.
#[derive(Debug, Clone, PartialEq)]
struct Model {
    capacity: u64,
    members: usize,
    regions: BTreeMap<u64, Region>,
    quarantine: BTreeMap<u16, u64>,
    hosts: BTreeMap<u16, Host>,
}

impl Model {
    fn new() -> Self {
        Self {
            capacity: EXTENTS,
            members: 1,
            regions: BTreeMap::new(),
            quarantine: BTreeMap::new(),
            hosts: BTreeMap::new(),
        }
    }

    /// What a state says, in the terms of the model.
    fn of(state: &PoolState) -> Self {
        let mut quarantine: BTreeMap<u16, u64> = BTreeMap::new();
        for entry in &state.quarantine {
            let extents: u64 = entry.runs.iter().map(|run| run.2).sum();
            *quarantine.entry(entry.slot).or_default() += extents;
        }
        let regions = state.regions.iter().map(|region| {
            let pins = region.pins.iter();
            let pins = pins.map(|pin| ((pin.by.slot, pin.by.incarnation), pin.count));
            let entry = Region {
                state: region.state,
                name: region.name.clone(),
                version: region.version,
                extents: region.extents(),
                owner: region.owner.map(|owner| (owner.slot, owner.incarnation)),
                pins: pins.collect(),
            };
            (region.id, entry)
        });
        let hosts = state.hosts.iter().map(|host| {
            let entry = Host {
                incarnation: host.incarnation,
                fenced: host.state == HostState::Fenced,
            };
            (host.slot, entry)
        });
        Self {
            capacity: state.member_extents(),
            members: state.members.iter().filter(|m| !m.removed).count(),
            regions: regions.collect(),
            quarantine,
            hosts: hosts.collect(),
        }
    }

    fn free(&self) -> u64 {
        let used: u64 = self.regions.values().map(|region| region.extents).sum();
        self.capacity - used - self.quarantine.values().sum::<u64>()
    }

    /// Ends what a host writes; frees it or puts it into quarantine.
    fn take_from(&mut self, slot: u16, clean: bool) {
        let owned = |region: &Region| region.owner.is_some_and(|owner| owner.0 == slot);
        let extents: u64 = self
            .regions
            .values()
            .filter(|r| owned(r))
            .map(|r| r.extents)
            .sum();
        self.regions.retain(|_, region| !owned(region));
        let extents = extents + self.quarantine.remove(&slot).unwrap_or(0);
        if !clean && extents > 0 {
            self.quarantine.insert(slot, extents);
        }
    }

    fn unpin_all(&mut self, slot: u16) {
        for region in self.regions.values_mut() {
            region.pins.retain(|reader, _| reader.0 != slot);
        }
        self.free_retired();
    }

    fn free_retired(&mut self) {
        self.regions
            .retain(|_, region| region.state != RegionState::Retired || !region.pins.is_empty());
    }

    fn joined(&mut self, slot: u16, incarnation: u64, clean: bool, former_home: Option<u16>) {
        if self.hosts.contains_key(&slot) {
            self.take_from(slot, clean);
            self.unpin_all(slot);
        }
        let fenced = false;
        self.hosts.insert(
            slot,
            Host {
                incarnation,
                fenced,
            },
        );
        if let Some(former) = former_home {
            self.fence(former);
        }
    }

    fn fence(&mut self, slot: u16) {
        self.take_from(slot, false);
        if let Some(host) = self.hosts.get_mut(&slot) {
            host.fenced = true;
        }
    }

    /// Makes a change; `None` if it must be refused.
    fn make(&mut self, by: Reader, change: &Change) -> Option<Option<u64>> {
        let host = self.hosts.get(&by.0)?;
        if host.fenced || host.incarnation != by.1 {
            return None;
        }
        match change {
            Change::Reserve {
                kind,
                name,
                extents,
                ..
            } => {
                if self.free() < *extents {
                    return None;
                }
                let state = match kind {
                    RegionKind::Table => RegionState::Building,
                    RegionKind::Scratch => RegionState::Active,
                };
                return Some(Some(*extents)).inspect(|_| {
                    self.pending(state, name, *extents, by);
                });
            }
            Change::Extend {
                region, extents, ..
            } => {
                let free = self.free();
                let region = self.owned(*region, by, RegionState::Active)?;
                if free < *extents {
                    return None;
                }
                region.extents += extents;
            }
            Change::Seal { region, .. } => self.seal(*region, by)?,
            Change::Pin { region } => {
                let region = self.sealed(*region)?;
                *region.pins.entry(by).or_default() += 1;
            }
            Change::Unpin { region } => {
                if let Some(region) = self.regions.get_mut(region)
                    && let Some(count) = region.pins.get_mut(&by)
                {
                    *count -= 1;
                    region.pins.retain(|_, count| *count > 0);
                }
                self.free_retired();
            }
            Change::Drop { region } => {
                self.sealed(*region)?.state = RegionState::Retired;
                self.free_retired();
            }
            Change::Return { region, clean } => {
                let found = self.regions.get(region)?;
                if found.owner != Some(by) {
                    return None;
                }
                let extents = found.extents;
                self.regions.remove(region);
                if clean.is_none() {
                    *self.quarantine.entry(by.0).or_default() += extents;
                }
            }
            // Member 0 has what the others have not, all of one extent.
            Change::Grow { extents, .. } => {
                self.capacity = self.capacity.max(extents + self.members as u64 - 1);
            }
            Change::AddMember(_) => {
                self.members += 1;
                self.capacity += 1;
            }
            Change::Fence { host } => self.fence(host.slot),
            Change::Gone { host, .. } => self.gone(host.slot),
            // Not drawn; shrinking depends on where regions lie, which this model does not know.
            Change::Damaged { .. }
            | Change::Leave { .. }
            | Change::Serve { .. }
            | Change::Shrink { .. } => return None,
            // Whether it may be is asked of the state, see `World::removable`.
            Change::RemoveMember { .. } => self.remove(),
        }
        Some(None)
    }

    fn remove(&mut self) {
        self.members -= 1;
        self.capacity -= 1;
    }

    fn gone(&mut self, slot: u16) {
        self.take_from(slot, true);
        self.unpin_all(slot);
        self.hosts.remove(&slot);
    }

    fn seal(&mut self, id: u64, by: Reader) -> Option<()> {
        let name = self.owned(id, by, RegionState::Building)?.name.clone();
        let mut former = self.regions.values_mut();
        let former = former.find(|r| r.state == RegionState::Sealed && r.name == name);
        let version = former.map_or(1, |former| {
            former.state = RegionState::Retired;
            former.version + 1
        });
        let region = self.owned(id, by, RegionState::Building)?;
        *region = Region {
            state: RegionState::Sealed,
            version,
            owner: None,
            ..region.clone()
        };
        self.free_retired();
        Some(())
    }

    /// A new region has the next number, which the model learns from the pool: 0 until then.
    fn pending(&mut self, state: RegionState, name: &str, extents: u64, by: Reader) {
        let region = Region {
            state,
            name: name.to_owned(),
            version: 0,
            extents,
            owner: Some(by),
            pins: BTreeMap::new(),
        };
        self.regions.insert(0, region);
    }

    fn owned(&mut self, id: u64, by: Reader, state: RegionState) -> Option<&mut Region> {
        let region = self.regions.get_mut(&id)?;
        (region.owner == Some(by) && region.state == state).then_some(region)
    }

    fn sealed(&mut self, id: u64) -> Option<&mut Region> {
        let region = self.regions.get_mut(&id)?;
        (region.state == RegionState::Sealed).then_some(region)
    }
}

/// Draws a change, possible or not.
fn draw(model: &Model, slots: &[u16], by: u16, rng: &mut fastrand::Rng) -> Change {
    let ids: Vec<u64> = model.regions.keys().copied().collect();
    let region = match ids.is_empty() || rng.u8(..16) == 0 {
        true => rng.u64(..40),
        false => ids[rng.usize(..ids.len())],
    };
    let spread = [Spread::Pack, Spread::Stripe(4 << 20), Spread::Stripe(1)][rng.usize(..3)];
    let extents = rng.u64(1..6);
    let clean = (rng.u8(..4) > 0).then(Clean::confirmed_down);
    let others: Vec<u16> = slots.iter().copied().filter(|slot| *slot != by).collect();
    match rng.u8(..23) {
        0..6 => Change::Reserve {
            kind: [RegionKind::Table, RegionKind::Scratch][rng.usize(..2)],
            name: format!("t{}", rng.u8(..3)),
            uuid: Uuid::from_u128(rng.u128(..)),
            extents,
            spread,
        },
        6 => Change::Extend {
            region,
            extents,
            spread,
        },
        7..11 => Change::Seal {
            region,
            manifest: ManifestRef {
                bytes: 64,
                checksum: 1,
            },
            clean: Clean::confirmed_down(),
        },
        11..13 => Change::Pin { region },
        13..15 => Change::Unpin { region },
        15 => Change::Drop { region },
        16 => Change::Return { region, clean },
        17 => Change::Grow {
            member: 0,
            extents: EXTENTS + rng.u64(..8),
        },
        18 if model.members < 4 => Change::AddMember(MemberEntry {
            uuid: Uuid::from_u128(rng.u128(..)),
            extents: 1,
            path: "further".into(),
            removed: false,
            unknown: BTreeMap::new(),
        }),
        // Which member it is, if any, is drawn from the state.
        19 | 20 => Change::RemoveMember {
            member: Uuid::nil(),
        },
        _ if others.is_empty() => Change::Pin { region },
        _ => {
            let slot = others[rng.usize(..others.len())];
            let incarnation = model.hosts[&slot].incarnation;
            let host = Holder { slot, incarnation };
            match rng.bool() {
                true => Change::Fence { host },
                false => Change::Gone {
                    host,
                    clean: Clean::confirmed_down(),
                },
            }
        }
    }
}

struct World {
    sim: Sim,
    manager: Manager,
    /// Machine of the manager.
    home: usize,
    model: Model,
    /// Incarnation and last request of each machine.
    processes: [(u64, u64); 3],
    next_incarnation: u64,
}

#[derive(Default, Debug)]
struct Counts {
    made: usize,
    refused: usize,
    crashed: usize,
    repeated: usize,
    takeovers: usize,
    removed: usize,
    stuck: usize,
}

impl World {
    fn new() -> Self {
        let sim = new_pool();
        let manager = Manager::open(sim.host(0), joining("a", 1, 1)).unwrap();
        let mut model = Model::new();
        model.joined(0, 1, true, None);
        Self {
            sim,
            manager,
            home: 0,
            model,
            processes: [(1, 0), (0, 0), (0, 0)],
            next_incarnation: 2,
        }
    }

    fn slot(&self, machine: usize) -> Option<u16> {
        self.manager
            .state
            .host_of(HOSTS[machine])
            .map(|host| host.slot)
    }

    /// One change that a random host asks for.
    fn request(&mut self, rng: &mut fastrand::Rng, counts: &mut Counts) {
        let machine = rng.usize(..3);
        let Some(slot) = self.slot(machine) else {
            return self.join(machine, rng);
        };
        let slots: Vec<u16> = self.model.hosts.keys().copied().collect();
        let own = self.manager.me.slot;
        // The manager is not fenced by its own commit.
        let change = match draw(&self.model, &slots, slot, rng) {
            Change::Fence { host } | Change::Gone { host, .. } if host.slot == own => {
                Change::Unpin { region: 0 }
            }
            Change::RemoveMember { .. } => match self.some_member(rng) {
                Some(member) => Change::RemoveMember { member },
                None => Change::Unpin { region: 0 },
            },
            change => change,
        };
        self.processes[machine].1 += 1;
        let (incarnation, request) = self.processes[machine];
        let actor = Actor {
            holder: Holder { slot, incarnation },
            request,
        };
        let mut expected = self.model.clone();
        let mut allowed = expected.make((slot, incarnation), &change);
        if let Change::RemoveMember { member } = &change {
            allowed = allowed.filter(|_| self.removable(*member));
            counts.removed += usize::from(allowed.is_some());
            counts.stuck += usize::from(allowed.is_none());
        }
        let mut next = self.manager.state.clone();
        let outcome = next.apply(actor, [change.clone()], LAYOUT.extent_bytes);
        assert_eq!(
            outcome.is_ok(),
            allowed.is_some(),
            "{change:?}: {outcome:?}\n{:#?}",
            self.model
        );
        let Ok(outcome) = outcome else {
            counts.refused += 1;
            return;
        };
        if let (Answer::Region(id), Some(region)) = (outcome, expected.regions.remove(&0)) {
            expected.regions.insert(id, region);
        }
        if rng.u8(..8) == 0 {
            counts.crashed += 1;
            return self.crash(next, expected, rng, counts);
        }
        self.manager.commit(next).unwrap();
        self.model = expected;
        counts.made += 1;
        if rng.u8(..8) == 0 {
            // The answer was lost: the request is repeated, and gets the same one.
            let mut again = self.manager.state.clone();
            let repeated = again.apply(actor, [change], LAYOUT.extent_bytes);
            // A host that the change has removed is not there to ask again.
            if self.slot(machine) == Some(slot) {
                assert_eq!(repeated.unwrap(), outcome);
                assert_eq!(again, self.manager.state);
                counts.repeated += 1;
            }
        }
        self.check();
    }

    /// The first member, or one of the others.
    fn some_member(&self, rng: &mut fastrand::Rng) -> Option<Uuid> {
        let there = self.manager.state.members.iter().filter(|m| !m.removed);
        let there: Vec<Uuid> = there.map(|member| member.uuid).collect();
        let least = usize::from(rng.u8(..8) > 0);
        (there.len() > 1).then(|| there[rng.usize(least..there.len())])
    }

    /// Whether a member of one extent can go: what is on it can be moved, and there is room.
    fn removable(&self, member: Uuid) -> bool {
        let state = &self.manager.state;
        let index = state.members.iter().position(|m| m.uuid == member).unwrap();
        let on = |runs: &[crate::state::Extents]| runs.iter().any(|r| r.0 as usize == index);
        let quarantined = state.quarantine.iter().any(|q| on(&q.runs));
        // What is on it, if anything, is one extent of one region.
        let here = state.regions.iter().find(|region| on(&region.runs));
        let fixed = here.is_some_and(|r| r.state != RegionState::Sealed || !r.pins.is_empty());
        let used = here.is_some();
        index > 0 && !quarantined && !fixed && (!used || self.model.free() > 0)
    }

    fn join(&mut self, machine: usize, rng: &mut fastrand::Rng) {
        if machine == self.home {
            return;
        }
        self.next_incarnation += 1;
        let clean = rng.bool();
        let mut request = joining(HOSTS[machine], 1, self.next_incarnation);
        request.clean = clean.then(Clean::confirmed_down);
        let mut next = self.manager.state.clone();
        let slot = next.join(request).unwrap();
        self.manager.commit(next).unwrap();
        self.model.joined(slot, self.next_incarnation, clean, None);
        self.processes[machine] = (self.next_incarnation, 0);
        self.check();
    }

    /// The manager dies somewhere in a commit, and a random host takes over.
    fn crash(
        &mut self,
        next: PoolState,
        expected: Model,
        rng: &mut fastrand::Rng,
        counts: &mut Counts,
    ) {
        let at = rng.usize(..300);
        let crashed = std::sync::Arc::new(std::sync::Mutex::new(None));
        let (seen, memory) = (crashed.clone(), self.sim.clone());
        self.manager.host.on_every_op(move |_, op| {
            if op == at {
                *seen.lock().unwrap() = Some(memory.device().clone());
            }
        });
        self.manager.commit(next).unwrap();
        self.manager.host.let_go();
        let device = crashed.lock().unwrap().take();
        let acknowledged = device.is_none();
        let device = device.unwrap_or_else(|| self.sim.device().clone());
        let mut images = device.images(6, rng);
        self.sim = Sim::of(images.swap_remove(rng.usize(..images.len())));
        let found = Model::of(&self.sim.recover().unwrap());
        assert!(found == expected || (found == self.model && !acknowledged));
        self.model = found;
        self.take_over(rng, counts);
    }

    fn take_over(&mut self, rng: &mut fastrand::Rng, counts: &mut Counts) {
        let machine = rng.usize(..3);
        self.next_incarnation += 1;
        let clean = rng.bool();
        let mut request = joining(HOSTS[machine], 1, self.next_incarnation);
        request.clean = clean.then(Clean::confirmed_down);
        let former = (machine != self.home)
            .then(|| self.slot(self.home))
            .flatten();
        self.manager = Manager::open(self.sim.host(machine), request).unwrap();
        self.home = machine;
        self.processes[machine] = (self.next_incarnation, 0);
        let slot = self.manager.me.slot;
        self.model
            .joined(slot, self.next_incarnation, clean, former);
        counts.takeovers += usize::from(former.is_some());
        self.check();
    }

    /// The pool is what the model says, and adds up.
    fn check(&self) {
        let state = &self.manager.state;
        assert_eq!(Model::of(state), self.model);
        assert_eq!(self.sim.recover().unwrap(), *state);
        let gone = |run: &crate::state::Extents| state.members[run.0 as usize].removed;
        assert!(!state.runs().any(|run| gone(&run)));
        let space = state.space(1);
        let parts = space.free_bytes + space.used_bytes + space.quarantined_bytes;
        assert_eq!(parts, space.capacity_bytes);
        assert_eq!(space.free_bytes, self.model.free());
    }
}

#[test]
fn random_histories_of_three_hosts_are_those_of_the_model() {
    let rng = &mut rng("histories");
    let mut counts = Counts::default();
    for _ in 0..60 {
        let mut world = World::new();
        for _ in 0..60 {
            world.request(rng, &mut counts);
        }
    }
    println!("{counts:?}");
    assert!(counts.made > 500 && counts.refused > 100, "{counts:?}");
    assert!(
        counts.crashed > 20
            && counts.repeated > 20
            && counts.takeovers > 5
            && counts.removed > 10
            && counts.stuck > 5,
        "{counts:?}"
    );
}

#[test]
fn a_process_that_was_replaced_can_change_nothing() {
    let mut world = World::new();
    let rng = &mut rng("replaced");
    world.join(1, rng);
    let (old, slot) = (world.processes[1].0, world.slot(1).unwrap());
    world.join(1, rng);
    let actor = Actor {
        holder: Holder {
            slot,
            incarnation: old,
        },
        request: 0,
    };
    let mut next = world.manager.state.clone();
    let refused = next.apply(actor, [Change::Unpin { region: 1 }], LAYOUT.extent_bytes);
    assert!(matches!(refused, Err(PoolError::StaleHost { .. })));
}

#[test]
fn fields_of_a_later_version_survive_a_commit_of_this_one() {
    let sim = new_pool();
    let mut manager = Manager::open(sim.host(0), joining("a", 1, 1)).unwrap();
    let mut json = serde_json::to_value(&manager.state).unwrap();
    json["new"] = 1.into();
    json["members"][0]["new"] = 2.into();
    json["hosts"][0]["new"] = 3.into();
    manager
        .commit(serde_json::from_value(json).unwrap())
        .unwrap();
    let mut again = Manager::open(sim.host(0), joining("a", 1, 2)).unwrap();
    again.mark("a commit").unwrap();
    let json = serde_json::to_value(sim.recover().unwrap()).unwrap();
    let found = [
        &json["new"],
        &json["members"][0]["new"],
        &json["hosts"][0]["new"],
    ];
    assert_eq!(found, [1, 2, 3]);
}

#[test]
fn a_state_that_does_not_fit_is_refused_and_the_last_one_stays() {
    let sim = new_pool();
    let mut manager = Manager::open(sim.host(0), joining("a", 1, 1)).unwrap();
    let before = sim.recover().unwrap();
    let refused = manager.mark(&"x".repeat(LAYOUT.slot_bytes as usize));
    assert!(
        matches!(refused, Err(PoolError::StateTooLarge { .. })),
        "{refused:?}"
    );
    assert_eq!(sim.recover().unwrap(), before);
    manager.mark("small").unwrap();
}
