//! Operators with a memory account, and the list of all of live plans.

use crate::counting::Tallies;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use tierloom_memory::router::{Class, ClassScope, OperatorHandle, OperatorUsage};

/// Name and memory account of an operator, shared by its node and its streams.
#[derive(Debug)]
pub(super) struct Operator {
    name: String,
    class: Class,
    handle: OperatorHandle,
    tallies: Arc<Tallies>,
}

impl Operator {
    pub(super) fn new(name: &str, class: Class) -> Arc<Self> {
        let operator = Arc::new(Operator {
            name: name.to_owned(),
            class,
            handle: OperatorHandle::register(),
            tallies: Arc::default(),
        });
        let mut all = registry().lock().unwrap_or_else(PoisonError::into_inner);
        // Plans that are gone are removed only when the vector would grow, so registration is
        // amortised O(1).
        if all.len() == all.capacity() {
            all.retain(|known| known.strong_count() > 0);
        }
        all.push(Arc::downgrade(&operator));
        operator
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn class(&self) -> Class {
        self.class
    }

    pub(super) fn scope(&self) -> ClassScope {
        ClassScope {
            class: self.class,
            operator: self.handle.id(),
        }
    }

    /// What it is counted with.
    pub(super) fn tallies(&self) -> &Arc<Tallies> {
        &self.tallies
    }

    pub(super) fn is_over(&self) -> bool {
        self.handle.is_over()
    }

    pub(super) fn usage(&self) -> OperatorUsage {
        self.handle.usage()
    }
}

fn registry() -> &'static Mutex<Vec<Weak<Operator>>> {
    static ALL: OnceLock<Mutex<Vec<Weak<Operator>>>> = OnceLock::new();
    ALL.get_or_init(Mutex::default)
}

/// The operators of all live plans, in planning order.
pub(super) fn operators() -> Vec<Arc<Operator>> {
    let all = registry().lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().filter_map(Weak::upgrade).collect()
}
