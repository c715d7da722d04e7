//! A value that the compiler need not look into.

use std::borrow::{Borrow, BorrowMut};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A value behind a trait object.
///
/// Whether a future may move between threads depends on every type inside it, and a session has
/// DataFusion's plans and expressions in it: hundreds of types that contain each other. The
/// compiler walks through all of them for each method of `#[async_trait]` that holds one, which
/// took nine tenths of the time to check `tierloom-serve`. Here it does so once, where
/// [`Opaque::new`] is called.
pub struct Opaque<T>(Box<dyn BorrowMut<T> + Send + Sync>);

impl<T: Send + Sync + 'static> Opaque<T> {
    /// Hides the inside of `value`.
    pub fn new(value: T) -> Self {
        Opaque(Box::new(value))
    }
}

impl<T> Deref for Opaque<T> {
    type Target = T;

    fn deref(&self) -> &T {
        Borrow::borrow(&*self.0)
    }
}

impl<T> DerefMut for Opaque<T> {
    fn deref_mut(&mut self) -> &mut T {
        BorrowMut::borrow_mut(&mut *self.0)
    }
}

impl<T: fmt::Debug> fmt::Debug for Opaque<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
