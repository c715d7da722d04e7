//! Thread-local scope of allocations: the class of structure and the operator that large
//! allocations of the running thread are made for.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use serde::{Serialize, Serializer};

/// What a large allocation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Build side of a hash join: its rows and its hash table.
    JoinBuild,
    /// Groups and their accumulators.
    Aggregation,
    /// Rows collected for a sort, and their order.
    SortRun,
    /// Rows in the queues between partitions.
    Repartition,
    /// Tables that statements create.
    TempTable,
    /// Rows of a result set.
    Result,
    /// Batches of every other operator.
    Other,
}

impl Class {
    /// Number of classes, the length of [`Class::ALL`].
    pub const COUNT: usize = 7;
    /// All classes, in the order of their indices.
    pub const ALL: [Class; Self::COUNT] = [
        Class::JoinBuild,
        Class::Aggregation,
        Class::SortRun,
        Class::Repartition,
        Class::TempTable,
        Class::Result,
        Class::Other,
    ];

    /// The name used in options and output.
    pub const fn name(self) -> &'static str {
        match self {
            Class::JoinBuild => "join",
            Class::Aggregation => "aggregation",
            Class::SortRun => "sort",
            Class::Repartition => "repartition",
            Class::TempTable => "temp",
            Class::Result => "result",
            Class::Other => "other",
        }
    }

    pub(super) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Class {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Number of an operator's account; [`OperatorId::NONE`] is the dummy account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OperatorId(pub(super) u32);

impl OperatorId {
    /// No operator: bytes are counted for their class only.
    pub const NONE: OperatorId = OperatorId(0);

    /// The account's number; 0 for [`OperatorId::NONE`].
    pub fn number(self) -> u32 {
        self.0
    }
}

/// What the large allocations made inside the scope are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassScope {
    /// Decides the places and limits.
    pub class: Class,
    /// Account that the bytes are added to.
    pub operator: OperatorId,
}

/// Width of the class in a packed scope.
///
/// A scope is packed into one word, so that a thread-local `Cell<u32>` holds it: class index + 1 in
/// the low four bits, the operator above. 0 is no scope.
const CLASS_BITS: u32 = 4;

impl ClassScope {
    fn word(self) -> u32 {
        (self.operator.0 << CLASS_BITS) | (self.class as u32 + 1)
    }

    fn from_word(word: u32) -> Option<Self> {
        let index = (word & CLASS_MASK).checked_sub(1)?;
        let class = *Class::ALL.get(index as usize)?;
        let operator = OperatorId(word >> CLASS_BITS);
        Some(ClassScope { class, operator })
    }
}

/// Packed values that are no scope. [`seen`] sets the question; a [`super::TierAllocator`] that is
/// asked for a large block replaces it by the answer.
const QUESTION: u32 = CLASS_MASK;
const ANSWER: u32 = CLASS_MASK - 1;
const CLASS_MASK: u32 = (1 << CLASS_BITS) - 1;
const _: () = assert!(Class::COUNT < ANSWER as usize);

thread_local! {
    // Initialised at compile time and without a destructor: access never allocates (it happens
    // inside the allocator) and works until the thread has ended.
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}

/// Restores the previous scope when it is dropped, also during unwinding.
#[derive(Debug)]
#[must_use = "the scope ends when the guard is dropped"]
pub struct ScopeGuard {
    before: u32,
    // The scope is the thread's, so the guard must be dropped on the thread that created it.
    _not_send: PhantomData<*const ()>,
}

/// Enters a scope: large allocations of this thread are for `scope` until the guard is dropped.
pub fn enter(scope: ClassScope) -> ScopeGuard {
    ScopeGuard {
        before: CURRENT.replace(scope.word()),
        _not_send: PhantomData,
    }
}

/// Leaves all scopes: this thread's allocations are not routed until the guard is dropped.
pub fn leave() -> ScopeGuard {
    ScopeGuard {
        before: CURRENT.replace(0),
        _not_send: PhantomData,
    }
}

/// Replaces the scope until the innermost guard is dropped; without a guard, until the next change.
pub fn switch(scope: ClassScope) {
    CURRENT.set(scope.word());
}

/// The scope that this thread is in; `None` outside of all scopes.
pub fn current() -> Option<ClassScope> {
    ClassScope::from_word(CURRENT.get())
}

/// Whether a [`super::TierAllocator`] received a large request of this thread during `work`.
///
/// None of these requests is routed: the word is not a valid scope.
pub(super) fn seen(work: impl FnOnce()) -> bool {
    let guard = ScopeGuard {
        before: CURRENT.replace(QUESTION),
        _not_send: PhantomData,
    };
    work();
    let answered = CURRENT.get() == ANSWER;
    drop(guard);
    answered
}

/// Records, for [`seen`], that a large request arrived.
pub(super) fn answer() {
    if CURRENT.get() == QUESTION {
        CURRENT.set(ANSWER);
    }
}

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(class: Class, operator: u32) -> ClassScope {
        ClassScope {
            class,
            operator: OperatorId(operator),
        }
    }

    #[test]
    fn scopes_nest_and_a_panic_restores_the_outer_one() {
        assert_eq!(current(), None);
        let outer = enter(scope(Class::JoinBuild, 7));
        let panicked = std::panic::catch_unwind(|| {
            let _inner = enter(scope(Class::SortRun, 8));
            assert_eq!(current(), Some(scope(Class::SortRun, 8)));
            std::panic::resume_unwind(Box::new("an operator failed"));
        });
        assert!(panicked.is_err());
        assert_eq!(current(), Some(scope(Class::JoinBuild, 7)));
        {
            let _nobody = leave();
            assert_eq!(current(), None);
        }
        drop(outer);
        assert_eq!(current(), None);
    }

    #[test]
    fn every_class_survives_its_word_and_its_name() {
        for class in Class::ALL {
            let scope = scope(class, 123_456);
            assert_eq!(ClassScope::from_word(scope.word()), Some(scope));
            assert_eq!(class.name().parse::<Class>().unwrap(), class);
        }
        let error = "heap".parse::<Class>().unwrap_err().to_string();
        assert!(error.contains("join, aggregation"), "{error}");
    }
}
