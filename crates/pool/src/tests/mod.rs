//! Tests of the protocol on a simulated memory, and of the pool on real files.

mod crashes;

mod managers;

mod seed;
mod sim;
