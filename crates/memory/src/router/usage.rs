//! What the router counted, for people and tables.

use std::sync::atomic::Ordering;

use serde::Serialize;

use super::account::PLACES;
use super::events::Why;
use super::options::{EARLIER_PLACE, INNER_PLACE, SYSTEM_PLACE};
use super::route::{INNER, Router, SYSTEM};
use super::{Class, OperatorId, ROUTER};

/// One class at one place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlaceUsage {
    /// The class.
    pub class: Class,
    /// The place, as it was named; [`SYSTEM_PLACE`] beyond the named ones, [`EARLIER_PLACE`] for
    /// blocks whose places were given other nodes.
    pub place: String,
    /// Most bytes that the class may have there; `None` for no limit.
    pub limit_bytes: Option<u64>,
    /// Bytes in use.
    pub current_bytes: u64,
    /// Most bytes that were in use at a time.
    pub peak_bytes: u64,
    /// Bytes in use and kept for reuse.
    pub held_bytes: u64,
    /// Most bytes in use and kept at a time.
    pub held_peak_bytes: u64,
    /// Allocations there.
    pub allocations: u64,
    /// Allocations that should have gone to an earlier place.
    pub fallbacks: u64,
    /// Why the kernel does not let the place be used.
    pub refused: Option<String>,
}

/// One operator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperatorUsage {
    /// Bytes in use.
    pub current_bytes: u64,
    /// Most bytes that were in use at a time.
    pub peak_bytes: u64,
    /// Most bytes that were in use at a time, by place of its class; the system's last.
    pub peak_by_place: Vec<u64>,
    /// Large allocations.
    pub allocations: u64,
    /// Allocations that did not come from the first place of the class.
    pub fallbacks: u64,
}

/// Memory that did not come from the first place of its class. Repetitions within a tenth of a
/// second are one event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// When, in ns since 1970.
    pub time_ns: u64,
    /// The class.
    pub class: Class,
    /// Allocations.
    pub count: u32,
    /// Their bytes together.
    pub bytes: u64,
    /// The place that could not give them.
    pub from: String,
    /// The place that did; `None` if none did, [`INNER_PLACE`] if the allocator inside did.
    pub to: Option<String>,
    /// Why.
    pub why: String,
}

/// Every place of every class that is configured or was used.
pub fn place_usage() -> Vec<PlaceUsage> {
    ROUTER.place_usage()
}

/// What an operator has and had.
pub fn operator_usage(operator: OperatorId) -> OperatorUsage {
    ROUTER.operator_usage(operator)
}

/// The named places of a class, first choice first.
pub fn places_of(class: Class) -> Vec<String> {
    let names = ROUTER.names();
    names.get(class.index()).cloned().unwrap_or_default()
}

/// The last events, oldest first.
pub fn events() -> Vec<Event> {
    ROUTER.event_list()
}

impl Router {
    pub(super) fn place_name(&self, class: Class, place: usize) -> String {
        if place == INNER {
            return INNER_PLACE.to_owned();
        }
        let names = self.names();
        let found = names.get(class.index()).and_then(|of| of.get(place));
        found.map_or_else(|| SYSTEM_PLACE.to_owned(), Clone::clone)
    }

    pub(super) fn place_usage(&self) -> Vec<PlaceUsage> {
        let mut all = Vec::with_capacity(Class::COUNT * PLACES);
        for class in Class::ALL {
            let configured = self.places(class);
            for place in 0..PLACES {
                let slot = self.slot(class, place);
                let allocations = slot.allocations.load(Ordering::Relaxed);
                if place >= configured && allocations == 0 {
                    continue;
                }
                all.push(PlaceUsage {
                    class,
                    place: self.place_name(class, place),
                    limit_bytes: Some(slot.limit_bytes()).filter(|limit| *limit < u64::MAX),
                    current_bytes: slot.level.current(),
                    peak_bytes: slot.level.peak(),
                    held_bytes: slot.held.current(),
                    held_peak_bytes: slot.held.peak(),
                    allocations,
                    fallbacks: slot.fallbacks.load(Ordering::Relaxed),
                    refused: slot.refused().map(|errno| Why::Refused(errno).to_string()),
                });
            }
            all.extend(self.earlier_usage(class));
        }
        all
    }

    /// What is left of blocks whose places were given other nodes meanwhile.
    fn earlier_usage(&self, class: Class) -> Option<PlaceUsage> {
        let slots = || (0..PLACES).map(|place| self.slot(class, place));
        let usage = PlaceUsage {
            class,
            place: EARLIER_PLACE.to_owned(),
            limit_bytes: None,
            current_bytes: slots().map(|slot| slot.earlier.current()).sum(),
            peak_bytes: slots().map(|slot| slot.earlier.peak()).sum(),
            held_bytes: slots().map(|slot| slot.earlier_held.current()).sum(),
            held_peak_bytes: slots().map(|slot| slot.earlier_held.peak()).sum(),
            allocations: 0,
            fallbacks: 0,
            refused: None,
        };
        (usage.held_bytes > 0).then_some(usage)
    }

    pub(super) fn operator_usage(&self, operator: OperatorId) -> OperatorUsage {
        let account = self.operators.of(operator);
        OperatorUsage {
            current_bytes: account.level.current(),
            peak_bytes: account.level.peak(),
            peak_by_place: account.by_place[..PLACES]
                .iter()
                .map(|level| level.peak())
                .collect(),
            allocations: account.allocations.load(Ordering::Relaxed),
            fallbacks: account.fallbacks.load(Ordering::Relaxed),
        }
    }

    pub(super) fn event_list(&self) -> Vec<Event> {
        let raw = self.events.all();
        raw.into_iter()
            .map(|event| Event {
                time_ns: event.time_ns,
                class: event.class,
                count: event.count,
                bytes: event.bytes,
                from: self.place_name(event.class, usize::from(event.from)),
                to: event
                    .to
                    .map(|place| self.place_name(event.class, usize::from(place))),
                why: event.why.to_string(),
            })
            .collect()
    }

    /// Peaks and counts of all places start again from what is in use now.
    pub(super) fn reset_peaks(&self) {
        for class in Class::ALL {
            for place in 0..=SYSTEM {
                let slot = self.slot(class, place);
                slot.level.reset_peak();
                slot.held.reset_peak();
                slot.earlier.reset_peak();
                slot.earlier_held.reset_peak();
            }
        }
        self.total.reset_peak();
    }
}
