//! Peers.

fn main(){}
