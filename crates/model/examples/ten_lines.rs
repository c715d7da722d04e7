//! How another engine gets weights: it knows what one of its operators touches, and sets the
//! weights before it allocates.
//!
//! `cargo run -p tierloom-model --example ten_lines`

use tierloom_model::{Access, Options, Phase, PhaseKind, profiles, search};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let machine = profiles::load("nus24")?;
    let join = [Phase::new("probe orders", PhaseKind::Probe, 6e8)
        .compute_ns(4.0)
        .access(Access::sequential_read(
            "lineitem.orderkey",
            8.0,
            4_800_000_000,
        ))
        .access(Access::probe("orders", 1.0, 12_000_000_000).vectorised())];
    let (workers, options) = (32, Options::default());
    let problem = search::Problem::new(&machine, &join, workers, &options);
    let best = search::best(&problem)?;
    let range = search::robust(&problem, &best)?;

    println!(
        "modelled on {}: {}, {:.2} of the rate on DRAM alone ({:.2} to {:.2}), limited by {}",
        machine.name,
        best.weights,
        best.gain_over_dram(),
        range.gain.0,
        range.gain.1,
        best.bottleneck
    );
    for warning in search::warnings(&problem, &best, &range)? {
        println!("{warning}");
    }
    Ok(())
}
