//! Snapshots of the router's counters, for output and system tables.

use std::sync::atomic::Ordering;

use serde::Serialize;

use super::account::PLACES;
use super::events::Why;
use super::options::POOL_PLACE;
use super::options::{EARLIER_PLACE, INNER_PLACE, SYSTEM_PLACE};
use super::route::POOL;
use super::route::{INNER, Router, SYSTEM};
use super::{Class, OperatorId, ROUTER};

/// Counts of one class at one place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlaceUsage {
    /// The class whose blocks are counted.
    pub class: Class,
    /// Name of the place.
    ///
    /// [`SYSTEM_PLACE`] is the fallback behind the configured ones; [`EARLIER_PLACE`] has the
    /// blocks whose places were given other nodes.
    pub place: String,
    /// Most bytes that the class may hold there; `None` for no limit.
    pub limit_bytes: Option<u64>,
    /// Bytes in use now.
    pub current_bytes: u64,
    /// Highest value of `current_bytes`.
    pub peak_bytes: u64,
    /// Bytes in use, cached for reuse, or not yet released.
    pub held_bytes: u64,
    /// Highest value of `held_bytes`.
    pub held_peak_bytes: u64,
    /// Allocations served from this place, the reused ones included.
    pub allocations: u64,
    /// Of these, the ones that an earlier place of the class could not serve.
    pub fallbacks: u64,
    /// Why the kernel does not let the place be used; `None` if it does.
    pub refused: Option<String>,
}

/// Counts of one operator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperatorUsage {
    /// Bytes in use now.
    pub current_bytes: u64,
    /// Highest value of `current_bytes`.
    pub peak_bytes: u64,
    /// Highest bytes in use at each place of its class; the fallback place is last.
    pub peak_by_place: Vec<u64>,
    /// Allocations that were routed; small ones are not counted.
    pub allocations: u64,
    /// Allocations that did not come from the first place of the class.
    pub fallbacks: u64,
}

/// Allocations that did not come from the first place of their class.
///
/// Repetitions within a tenth of a second are merged into one event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// Time of the first of them, in ns since 1970.
    pub time_ns: u64,
    /// The class that the memory was for.
    pub class: Class,
    /// Number of merged allocations.
    pub count: u32,
    /// Sum of their sizes.
    pub bytes: u64,
    /// The place that was to serve them.
    pub from: String,
    /// The place that served them.
    ///
    /// `None` if none did; [`INNER_PLACE`] if the inner allocator did.
    pub to: Option<String>,
    /// The reason, as text.
    pub why: String,
}

/// Counts of every place that is configured or was used.
pub fn place_usage() -> Vec<PlaceUsage> {
    ROUTER.place_usage()
}

/// Counts of one operator.
pub fn operator_usage(operator: OperatorId) -> OperatorUsage {
    ROUTER.operator_usage(operator)
}

/// Names of a class's places, in the order of [`OperatorUsage::peak_by_place`].
pub fn places_of(class: Class) -> Vec<String> {
    let all = 0..PLACES;
    all.map(|place| ROUTER.place_name(class, place)).collect()
}

/// The last 256 events, oldest first.
pub fn events() -> Vec<Event> {
    ROUTER.event_list()
}

impl Router {
    pub(super) fn place_name(&self, class: Class, place: usize) -> String {
        if place == INNER {
            return INNER_PLACE.to_owned();
        }
        if place == POOL {
            let named = self.in_order(class).position(|place| place == POOL);
            let names = self.names();
            let found = named.and_then(|at| names.get(class.index())?.get(at).cloned());
            return found.unwrap_or_else(|| POOL_PLACE.to_owned());
        }
        let names = self.names();
        let found = names.get(class.index()).and_then(|of| of.get(place));
        found.map_or_else(|| SYSTEM_PLACE.to_owned(), Clone::clone)
    }

    pub(super) fn place_usage(&self) -> Vec<PlaceUsage> {
        let mut all = Vec::with_capacity(Class::COUNT * PLACES);
        for class in Class::ALL {
            let configured: Vec<usize> = self.in_order(class).collect();
            for place in 0..PLACES {
                let slot = self.slot(class, place);
                let allocations = slot.allocations.load(Ordering::Relaxed);
                // Places that are no longer configured still show what they served.
                if !configured.contains(&place) && allocations == 0 {
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

    /// Blocks, over all places of the class, whose place has been given other nodes.
    fn earlier_usage(&self, class: Class) -> Option<PlaceUsage> {
        let slots = || (0..PLACES).map(|place| self.slot(class, place));
        let usage = PlaceUsage {
            class,
            place: EARLIER_PLACE.to_owned(),
            limit_bytes: None,
            current_bytes: slots().map(|slot| slot.earlier.current()).sum(),
            // An upper bound: the peaks of the slots need not coincide.
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

    /// Restarts all peaks from what is in use now.
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
