//! Makes tasks allocate in the class of the operator that spawned them, and be counted with it.
//!
//! DataFusion calls a process-wide tracer for every task that it spawns. The tracer captures the
//! spawning thread's scope and enters it whenever the task is polled.

use crate::counting::{self, CurrentOperator};
use datafusion_common_runtime::{JoinSetTracer, set_join_set_tracer};
use futures::future::BoxFuture;
use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll};
use tierloom_memory::router::{self, ClassScope};

/// Installs the task tracer and a panic hook, once per process.
///
/// The tracer carries the class into DataFusion's tasks; the hook keeps allocations of panic
/// reports out of all classes. If the program has its own tracer, that one stays.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // With another tracer, spawned tasks only lose their class and are not accounted.
        let _ = set_join_set_tracer(&Carry);
        // A panic report caches symbol tables for later reports, which are not the operator's
        // memory.
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let _nobody = router::leave();
            report(panic);
        }));
    });
}

struct Carry;

type Boxed = Box<dyn Any + Send>;

impl JoinSetTracer for Carry {
    fn trace_future(&self, future: BoxFuture<'static, Boxed>) -> BoxFuture<'static, Boxed> {
        match router::current() {
            Some(scope) => Box::pin(Scoped {
                scope,
                counted: counting::current(),
                future,
            }),
            None => future,
        }
    }

    fn trace_block(
        &self,
        block: Box<dyn FnOnce() -> Boxed + Send>,
    ) -> Box<dyn FnOnce() -> Boxed + Send> {
        match router::current() {
            Some(scope) => {
                let counted = counting::current();
                Box::new(move || {
                    let _counted = counted.map(CurrentOperator::enter);
                    let _scope = router::enter(scope);
                    block()
                })
            }
            None => block,
        }
    }
}

/// A task that enters its scope whenever it is polled.
struct Scoped {
    scope: ClassScope,
    counted: Option<CurrentOperator>,
    future: BoxFuture<'static, Boxed>,
}

impl Future for Scoped {
    type Output = Boxed;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Boxed> {
        let _counted = self.counted.clone().map(CurrentOperator::enter);
        let _scope = router::enter(self.scope);
        self.future.as_mut().poll(context)
    }
}
