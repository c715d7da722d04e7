//! Tasks that operators spawn allocate for the operator that spawned them.

use datafusion_common_runtime::{JoinSetTracer, set_join_set_tracer};
use futures::future::BoxFuture;
use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll};
use tierloom_memory::router::{self, ClassScope};

/// Makes DataFusion's tasks carry the class on, and keeps what panics allocate for their report out of all classes. Once per process; if the program has a tracer of its own, that one stays.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Another tracer loses nothing but the class of spawned tasks, which then count as nobody's.
        let _ = set_join_set_tracer(&Carry);
        // A panic's report keeps symbol tables for the next one; they are no operator's memory.
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
            Some(scope) => Box::pin(Scoped { scope, future }),
            None => future,
        }
    }

    fn trace_block(
        &self,
        block: Box<dyn FnOnce() -> Boxed + Send>,
    ) -> Box<dyn FnOnce() -> Boxed + Send> {
        match router::current() {
            Some(scope) => Box::new(move || {
                let _scope = router::enter(scope);
                block()
            }),
            None => block,
        }
    }
}

/// A task that is in a scope whenever it is polled.
struct Scoped {
    scope: ClassScope,
    future: BoxFuture<'static, Boxed>,
}

impl Future for Scoped {
    type Output = Boxed;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Boxed> {
        let _scope = router::enter(self.scope);
        self.future.as_mut().poll(context)
    }
}
