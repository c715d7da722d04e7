//! `tune --restore`: restores the kernel's weights and the prefetchers.

use super::apply::{failure, node_json, state, table, tier_nodes};
use super::prefetch;
use super::{ApplyReport, Args};
use crate::failure::Failure;
use crate::output;
use tierloom_tune::apply::{self, RestoredWeights};

/// Restores weights and prefetchers. A failure of one does not prevent the other.
pub fn run(args: &Args) -> Result<(), Failure> {
    let prefetchers = prefetch::restored(args);
    let weights = weights(args);
    // What could be restored is printed even if the other part failed; the failure decides the exit
    // code.
    let (report, ended) = match (weights, prefetchers) {
        (Ok(weights), Ok(None)) => (weights, Ok(())),
        (Ok(mut weights), Ok(Some(prefetchers))) => {
            weights.text += &prefetchers.text;
            weights.json["prefetchers"] = prefetchers.json;
            (weights, Ok(()))
        }
        (Ok(weights), Err(error)) => (weights, Err(error)),
        (Err(error), Ok(Some(prefetchers))) => (prefetchers, Err(error)),
        (Err(error), _) => return Err(error),
    };
    output::print(&if args.json {
        format!("{:#}\n", report.json)
    } else {
        report.text
    })?;
    ended
}

fn weights(args: &Args) -> Result<ApplyReport, Failure> {
    let (root, state) = (args.root(), state(args));
    let path = state.path().display();
    let restored = apply::restore(&root, &state, args.yes).map_err(failure)?;
    let json = restored_json(args, &restored, &path.to_string());
    let text = match restored {
        RestoredWeights::Nothing => format!("nothing to restore: no weights are saved in {path}\n"),
        RestoredWeights::Rebooted(saved) => format!(
            "nothing to restore: the machine was booted since the weights in {path} were saved ({}), and the kernel has its own again{}\n",
            saved.saved_at,
            if args.yes {
                "; the file is deleted"
            } else {
                "; --yes deletes the file"
            }
        ),
        RestoredWeights::Back {
            saved,
            plan,
            gone,
            reweighed,
        } => {
            let tiers = args
                .topology()
                .map(|topology| tier_nodes(&topology))
                .unwrap_or_default();
            let mut text = format!(
                "kernel, weights saved at {}:\n{}",
                saved.saved_at,
                table(&plan, &tiers)
            );
            if let Some(switch) = &plan.switch {
                text += &format!(
                    "{}: {}\n",
                    switch.file,
                    if switch.on { "back on" } else { "back off" }
                );
            }
            for node in gone {
                text += &format!("node {node} is gone: its weight is left out\n");
            }
            for change in reweighed {
                text += &format!(
                    "node {}: the kernel weighs {} now, not {}: firmware reports other bandwidths than then\n",
                    change.node, change.new, change.old
                );
            }
            text + if args.yes {
                "restored\n"
            } else {
                "nothing was written; add --yes to do it\n"
            }
        }
    };
    Ok(ApplyReport { text, json })
}

fn restored_json(args: &Args, restored: &RestoredWeights, state: &str) -> serde_json::Value {
    let (what, nodes) = match restored {
        RestoredWeights::Nothing => ("nothing saved", Vec::new()),
        RestoredWeights::Rebooted(_) => ("another boot", Vec::new()),
        RestoredWeights::Back { plan, .. } => {
            ("saved state", plan.nodes.iter().map(node_json).collect())
        }
    };
    serde_json::json!({ "done": args.yes, "found": what, "nodes": nodes, "state": state })
}
