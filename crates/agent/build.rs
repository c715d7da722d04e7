//! Generates the gRPC client and server from a description in Rust. Messages are JSON, so the build
//! needs no protobuf compiler.

use tonic_build::manual::{Builder, Method, Service};

/// The calls: Rust name, name on the wire, and request and reply types in `src/wire`.
const METHODS: [(&str, &str, &str, &str); 8] = [
    ("hello", "Hello", "Hello", "HelloReply"),
    ("clock", "Clock", "ClockQuery", "ClockReply"),
    ("prepare", "Prepare", "Prepare", "Reply"),
    ("start", "Start", "Start", "Reply"),
    ("poll", "Poll", "Poll", "PollReply"),
    ("fetch", "Fetch", "Fetch", "FetchReply"),
    ("stop", "Stop", "StopWork", "Reply"),
    ("bye", "Bye", "Bye", "Reply"),
];

/// The one call of a program that answers requests of its own kind.
const REQUESTS: [(&str, &str, &str, &str); 1] = [("call", "Call", "Text", "Text")];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let services = [service("Agent", &METHODS), service("Requests", &REQUESTS)];
    Builder::new().compile(&services);
}

fn service(name: &str, methods: &[(&str, &str, &str, &str)]) -> Service {
    let mut service = Service::builder().name(name).package("tierloom");
    for (name, route, input, output) in methods {
        service = service.method(
            Method::builder()
                .name(name)
                .route_name(route)
                .input_type(format!("crate::wire::{input}"))
                .output_type(format!("crate::wire::{output}"))
                .codec_path("crate::wire::JsonCodec")
                .build(),
        );
    }
    service.build()
}
