//! Sets weights in the kernel and writes the files for an engine.
//!
//! Without `--yes` everything is planned and printed, but nothing is written. The old weights are
//! saved by `tierloom_tune::apply` before the first write.

use super::show;
use super::{ApplyReport, Args, Tuning, stamp};
use crate::failure::Failure;
use crate::output;
use comfy_table::{Table, presets};
use std::path::PathBuf;
use tierloom_model::search::Weights;
use tierloom_record::{Provenance, TierWeight, atomic_write};
use tierloom_topology::{SysRoot, Topology};
use tierloom_tune::apply::{
    self, ApplyError, AutoPolicy, NodeChange, NodeWeights, StateFile, TierNodes, WeightsChange,
    usual_state_file,
};
use tierloom_tune::engine::{self, EngineWeights, PhaseWeights};
use tierloom_tune::modelled::tier_weights;

/// Deviation of a share above which the rounding to whole weights is reported.
const DEVIATION_TOLD: f64 = 0.005;

/// The machine whose weights are set.
///
/// Read before any tuning, so that a machine that cannot be set is found first.
pub struct Target {
    /// Host name and processor, for messages.
    name: String,
    root: SysRoot,
    tiers: Vec<TierNodes>,
    auto: AutoPolicy,
    state: StateFile,
}

impl Target {
    /// Reads the machine's tiers and where its old weights are saved.
    pub fn look(args: &Args) -> Result<Self, Failure> {
        let topology = args.topology()?;
        let host = topology.hostname.as_deref().unwrap_or("without a name");
        Ok(Target {
            name: format!("{host}, {}", topology.cpu_model),
            tiers: tier_nodes(&topology),
            auto: AutoPolicy {
                may_go_off: args.auto_off,
                can_come_back: firmware_tells(&topology),
            },
            state: state(args),
            root: args.root(),
        })
    }
}

pub(super) fn tier_nodes(topology: &Topology) -> Vec<TierNodes> {
    let one = |tier: &tierloom_topology::MemoryTier| TierNodes {
        tier: tier.kind.to_string(),
        nodes: tier.nodes.iter().map(|node| node.0).collect(),
    };
    topology.tiers.iter().map(one).collect()
}

/// Whether firmware reports bandwidths, from which the kernel could derive weights again.
fn firmware_tells(topology: &Topology) -> bool {
    let mut access = topology.nodes.iter().flat_map(|node| &node.access);
    access.any(|access| access.read_bandwidth_gbps.is_some())
}

pub(super) fn state(args: &Args) -> StateFile {
    let root = args.root();
    match &args.state {
        Some(path) => StateFile::at(path),
        None => usual_state_file(&root, root.is_host(), |name| std::env::var(name).ok()),
    }
}

pub(super) fn failure(error: ApplyError) -> Failure {
    if error.is_bad_input() {
        Failure::input(error)
    } else {
        Failure::runtime(error)
    }
}

/// Sets the weights of the chosen phase and writes the files.
pub fn tuned(args: &Args, target: &Target, tuning: &Tuning) -> Result<ApplyReport, Failure> {
    let chosen = chosen(args, tuning)?;
    let record = tuning
        .outcomes
        .iter()
        .map(|o| &o.record)
        .find(|r| r.phase == chosen);
    let best = record
        .map(|record| record.best.as_slice())
        .unwrap_or_default();
    let origin = format!("{} weights of phase {chosen}", tuning.provenance);
    let kernel = if args.no_kernel {
        None
    } else {
        Some(prepare(target, best)?)
    };
    let files = files(args, target, tuning, &chosen)?;
    // Everything is prepared and checked before the first write. The files come before the kernel
    // because they are harmless if setting the weights then fails.
    if args.yes {
        if let Some(kernel) = &kernel {
            kernel.plan.check_writable(&target.root).map_err(failure)?;
        }
        for (path, text) in &files {
            atomic_write(path, text.as_bytes())?;
            note!("wrote {}", path.display());
        }
    }
    let mut report = match kernel {
        Some(kernel) => set(args, target, &kernel, &origin)?,
        None => ApplyReport {
            text: format!("\n{origin}: {}\n", show::weights(best)),
            json: serde_json::json!({ "done": args.yes }),
        },
    };
    if !args.yes {
        for (path, text) in &files {
            report.text += &format!("would write {}:\n{}", path.display(), indented(text));
        }
        report.text += "nothing was written; add --yes to do it\n";
    }
    if tuning.provenance == Provenance::Modelled {
        let profile = record.map_or("", |record| record.machine.as_str());
        report.text += &format!(
            "these weights are modelled for {profile}; they fit this machine ({}) only as well as the profile does\n",
            target.name
        );
    }
    let names: Vec<String> = files
        .iter()
        .map(|(path, _)| path.display().to_string())
        .collect();
    report.json["files"] = serde_json::json!(names);
    report.json["phase"] = serde_json::json!(chosen);
    Ok(report)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

/// The phase whose weights the kernel gets: it has one set for all programs.
fn chosen(args: &Args, tuning: &Tuning) -> Result<String, Failure> {
    let names: Vec<&str> = tuning
        .outcomes
        .iter()
        .map(|o| o.record.phase.as_str())
        .collect();
    match (&args.phase, names.as_slice()) {
        (Some(phase), names) if names.contains(&phase.as_str()) => Ok(phase.clone()),
        (Some(phase), names) => Err(Failure::input(format!(
            "--phase {phase} was not tuned; tuned were {}",
            names.join(", ")
        ))),
        (None, [one]) => Ok((*one).to_owned()),
        (None, names) => Err(Failure::input(format!(
            "the kernel has one set of weights for all programs; choose the phase that it is for with --phase ({})",
            names.join(", ")
        ))),
    }
}

/// Sets the weights given with `--weights`.
pub fn typed(args: &Args, text: &str) -> Result<(), Failure> {
    let target = Target::look(args)?;
    let names = match args.tier_names() {
        none if none.is_empty() => target.tiers.iter().map(|tier| tier.tier.clone()).collect(),
        some => some,
    };
    let weights = Weights::parse(text, &names).map_err(Failure::input)?;
    let kernel = prepare(&target, &tier_weights(&weights))?;
    let mut report = set(args, &target, &kernel, "weights as typed")?;
    if args.json {
        let text = serde_json::to_string_pretty(&report.json).map_err(Failure::runtime)?;
        return output::print(&format!("{text}\n"));
    }
    if !args.yes {
        report.text += "nothing was written; add --yes to do it\n";
    }
    output::print(report.text.trim_start())
}

/// Weights per node, and what setting them would write.
struct Kernel {
    nodes: NodeWeights,
    plan: WeightsChange,
}

fn prepare(target: &Target, weights: &[TierWeight]) -> Result<Kernel, Failure> {
    let weights: Vec<(String, u32)> = weights.iter().map(|w| (w.tier.clone(), w.weight)).collect();
    let nodes = apply::node_weights(&weights, &target.tiers).map_err(failure)?;
    let plan = apply::plan(&target.root, &nodes.weights, target.auto).map_err(failure)?;
    Ok(Kernel { nodes, plan })
}

fn set(
    args: &Args,
    target: &Target,
    kernel: &Kernel,
    origin: &str,
) -> Result<ApplyReport, Failure> {
    let state = target.state.path().display().to_string();
    let (plan, mut text) = if args.yes {
        let now = stamp().made_at;
        let done = apply::apply(
            &target.root,
            &kernel.nodes.weights,
            target.auto,
            &target.state,
            &now,
        )
        .map_err(failure)?;
        let said = match (done.plan.is_done(), done.saved_now) {
            (true, _) => "the kernel has these weights already: nothing was written\n".into(),
            (false, true) => format!(
                "set; the old weights are saved in {state}, tierloom tune --restore puts them back\n"
            ),
            (false, false) => format!(
                "set; the first old weights are kept in {state}, tierloom tune --restore puts them back\n"
            ),
        };
        (done.plan, said)
    } else {
        let said = if kernel.plan.is_done() {
            "the kernel has these weights already\n".into()
        } else {
            format!("the old weights would be saved in {state}\n")
        };
        (kernel.plan.clone(), said)
    };
    let mut head = format!("\nkernel, {origin}:\n{}", table(&plan, &target.tiers));
    if let Some(switch) = &plan.switch {
        head += &format!(
            "{}: on to off; the kernel stops following firmware's bandwidths\n",
            switch.file
        );
        if !target.auto.can_come_back {
            head += "firmware reports no bandwidths here: it will stay off until the next boot\n";
        }
    }
    if kernel.nodes.worst_deviation() > DEVIATION_TOLD {
        for (tier, asked, got) in &kernel.nodes.shares {
            head += &format!(
                "{tier}: {:.1}% instead of {:.1}%, the nearest that weights from 1 to 255 give\n",
                got * 100.0,
                asked * 100.0
            );
        }
    }
    text.insert_str(0, &head);
    let nodes: Vec<_> = plan.nodes.iter().map(node_json).collect();
    let json = serde_json::json!({
        "done": args.yes,
        "nodes": nodes,
        "auto_goes_off": plan.switch.is_some(),
        "state": state,
    });
    Ok(ApplyReport { text, json })
}

pub(super) fn node_json(change: &NodeChange) -> serde_json::Value {
    serde_json::json!({ "node": change.node, "old": change.old, "new": change.new })
}

pub(super) fn table(plan: &WeightsChange, tiers: &[TierNodes]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header([
        "node",
        "tier",
        "old weight",
        "new weight",
    ]);
    for change in &plan.nodes {
        let tier = tiers.iter().find(|tier| tier.nodes.contains(&change.node));
        table.add_row([
            change.node.to_string(),
            tier.map_or("-", |tier| tier.tier.as_str()).to_owned(),
            change.old.to_string(),
            change.new.to_string(),
        ]);
    }
    format!("{table}\n")
}

/// The contents of the files for an engine, by path.
fn files(
    args: &Args,
    target: &Target,
    tuning: &Tuning,
    chosen: &str,
) -> Result<Vec<(PathBuf, String)>, Failure> {
    let stamp = stamp();
    let first = tuning.outcomes.first();
    let phase = |outcome: &super::Outcome| PhaseWeights {
        phase: outcome.record.phase.clone(),
        kind: outcome.kind,
        classes: outcome.classes.clone(),
        workers: outcome.record.workers,
        placement: engine::placement(&outcome.record.best),
        gain_over_dram: outcome.record.best_rate / outcome.record.dram_rate,
    };
    let named: Vec<&str> = tuning
        .outcomes
        .iter()
        .flat_map(|outcome| {
            outcome
                .record
                .best
                .iter()
                .map(|weight| weight.tier.as_str())
        })
        .collect();
    // Only tiers that some phase uses: an engine needs no nodes of the others.
    let tiers = target
        .tiers
        .iter()
        .filter(|tier| named.contains(&tier.tier.as_str()));
    let weights = EngineWeights {
        schema: engine::SCHEMA.into(),
        provenance: tuning.provenance,
        machine: first.map_or_else(String::new, |outcome| outcome.record.machine.clone()),
        made_at: stamp.made_at,
        tool_version: stamp.tool_version,
        tiers: tiers.cloned().collect(),
        phases: tuning.outcomes.iter().map(phase).collect(),
    };
    let mut files = Vec::new();
    if let Some(path) = &args.config {
        let name = path.display().to_string();
        files.push((
            path.clone(),
            weights.to_yaml(&name).map_err(Failure::runtime)?,
        ));
    }
    if let Some(path) = &args.env_file {
        // The shell that reads the file may run in another folder.
        let config = args.config.as_deref().map(std::path::absolute).transpose();
        let config = config.map_err(|error| {
            Failure::runtime(format!("cannot tell the full path of --config: {error}"))
        })?;
        files.push((path.clone(), weights.shell(Some(chosen), config.as_deref())));
    }
    Ok(files)
}
