//! Tests of the protocol on a simulated memory, and of the pool on real files.

mod bytes;
mod crashes;
mod histories;

mod managers;

mod seed;
mod sim;
