//! A service whose work is done by other threads than those of its connections.
//!
//! Operators take turns of seconds at times, as when they sort. Threads that serve connections must
//! not do that: their callers would take them for lost.

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Body as _, Frame};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::server::NamedService;
use tower::{Service, ServiceExt};

/// Messages that wait to be sent; more work on an answer waits until they are.
const WAITING: usize = 2;

/// `service` on the threads of a runtime.
#[derive(Clone)]
pub(super) struct OnThreads<S> {
    pub service: S,
    pub threads: Handle,
}

impl<S: NamedService> NamedService for OnThreads<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for OnThreads<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let service = self.service.clone();
        let (begin, begun) = oneshot::channel();
        let (send, frames) = mpsc::channel(WAITING);
        let mut work = JoinSet::new();
        let answer = async move {
            let Ok(response) = service.oneshot(request).await;
            let (head, body) = response.into_parts();
            if begin.send(head).is_err() {
                return;
            }
            let mut body = pin!(body);
            while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
                if send.send(frame).await.is_err() {
                    return;
                }
            }
        };
        work.spawn_on(answer, &self.threads);
        Box::pin(async move {
            Ok(match begun.await {
                Ok(head) => Response::from_parts(head, Body::new(AnswerBody { frames, work })),
                Err(_) => Status::internal("a part of a final plan failed").into_http(),
            })
        })
    }
}

/// The messages of an answer; dropping it ends the work on them.
struct AnswerBody {
    frames: mpsc::Receiver<Result<Frame<Bytes>, Status>>,
    work: JoinSet<()>,
}

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.frames.poll_recv(context) {
            Poll::Ready(None) => {}
            other => return other,
        }
        // A panic has ended it.
        let ended = std::task::ready!(self.work.poll_join_next(context));
        Poll::Ready(match ended {
            Some(Err(error)) => Some(Err(Status::internal(format!(
                "a part of a final plan failed: {error}"
            )))),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower::service_fn;

    /// A body of one message, for which it works for this long.
    struct Slow(Option<std::time::Duration>);

    impl http_body::Body for Slow {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            let time = self.0.take();
            Poll::Ready(time.map(|time| {
                assert!(!time.is_zero(), "no time to work");
                std::thread::sleep(time);
                Ok(Frame::data(Bytes::from_static(b"done")))
            }))
        }
    }

    #[test]
    fn threads_of_connections_do_other_things_while_an_answer_is_made() {
        let build = |name: &str| {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let builder = builder.worker_threads(1).enable_time().thread_name(name);
            builder.build().unwrap()
        };
        let (connections, operators) = (build("connections"), build("operators"));
        let slow = |millis| {
            let service = service_fn(move |_: Request<Body>| async move {
                let time = std::time::Duration::from_millis(millis);
                Ok::<_, Infallible>(Response::new(Body::new(Slow(Some(time)))))
            });
            let threads = operators.handle().clone();
            let mut service = OnThreads { service, threads };
            let answer = service.call(Request::new(Body::empty()));
            async move {
                let mut body = pin!(answer.await.unwrap().into_body());
                let mut frames = Vec::new();
                while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
                    frames.push(frame.map(|frame| frame.into_data().unwrap()));
                }
                frames
            }
        };
        connections.block_on(async {
            let answer = tokio::spawn(slow(300));
            // The only thread of this runtime is free meanwhile.
            let other = tokio::spawn(async { 7 });
            assert_eq!(other.await.unwrap(), 7);
            assert!(!answer.is_finished());
            let frames = answer.await.unwrap();
            assert_eq!(frames.len(), 1);
            assert_eq!(frames[0].as_ref().unwrap(), "done");
            let failed = slow(0).await;
            let error = failed.last().unwrap().as_ref().unwrap_err();
            assert!(error.message().contains("failed"), "{error}");
        });
    }
}
