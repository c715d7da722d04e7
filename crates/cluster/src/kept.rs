//! Plans that are kept for the next statement.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most plans that are kept; all are forgotten beyond.
const MOST: usize = 256;

/// Plans by what they were made of.
pub(crate) struct KeptPlans<K, P>(Mutex<HashMap<K, P>>);

impl<K, P> Default for KeptPlans<K, P> {
    fn default() -> Self {
        KeptPlans(Mutex::default())
    }
}

impl<K: Eq + Hash, P: Clone> KeptPlans<K, P> {
    /// The plan that was kept.
    pub fn get(&self, key: &K) -> Option<P> {
        self.plans().get(key).cloned()
    }

    /// Keeps a plan.
    pub fn keep(&self, key: K, plan: P) {
        let mut plans = self.plans();
        if plans.len() >= MOST {
            plans.clear();
        }
        plans.insert(key, plan);
    }

    /// Forgets all plans.
    pub fn clear(&self) {
        self.plans().clear();
    }

    fn plans(&self) -> MutexGuard<'_, HashMap<K, P>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
