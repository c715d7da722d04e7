//! Putting the saved weights back.

use std::io;

use super::files::{FOLDER, SystemFiles};
use super::kernel::{verify, write};
use super::settings::read_switch;
use super::{ApplyError, NodeChange, Plan, Saved, Settings, StateFile, Switch};

/// What putting back came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restored {
    /// No state is saved: nothing was set, or it was put back already.
    Nothing,
    /// The machine was booted since the state was saved, so the kernel holds its own weights again.
    Rebooted(Saved),
    /// What was (or with `do_it: false`, would be) written.
    Back {
        /// What was saved.
        saved: Saved,
        /// What is written for that.
        plan: Plan,
        /// Nodes of the saved state that are gone.
        gone: Vec<u32>,
        /// Nodes whose weight the kernel, weighing by itself again, now puts otherwise than it was saved: firmware reports other bandwidths.
        reweighed: Vec<NodeChange>,
    },
}

/// Puts the saved state back and forgets it; with `do_it: false` only tells what that would write. Doing it again does nothing.
///
/// # Errors
/// [`ApplyError`]; the saved state is kept then, and this can be tried again.
pub fn restore(
    files: &dyn SystemFiles,
    state: &StateFile,
    do_it: bool,
) -> Result<Restored, ApplyError> {
    let Some(saved) = state.read()? else {
        return Ok(Restored::Nothing);
    };
    if saved.is_of_another_boot(files) {
        if do_it {
            let _lock = state.lock()?;
            state.forget()?;
        }
        return Ok(Restored::Rebooted(saved));
    }
    let (plan, gone) = way_back(files, &saved)?;
    let mut reweighed = Vec::new();
    if do_it {
        plan.check_writable(files)?;
        let _lock = state.lock()?;
        reweighed = put_back(files, state, &plan)?;
        state.forget()?;
    }
    Ok(Restored::Back {
        saved,
        plan,
        gone,
        reweighed,
    })
}

/// What has to be written to come back to `saved`, and the nodes that are not there any more.
fn way_back(files: &dyn SystemFiles, saved: &Saved) -> Result<(Plan, Vec<u32>), ApplyError> {
    let old = Settings::read(files)?;
    let wanted = &saved.settings;
    let (there, gone): (Vec<_>, Vec<_>) = wanted
        .weights
        .iter()
        .partition(|(node, _)| old.weights.contains_key(node));
    let nodes: Vec<NodeChange> = there
        .into_iter()
        .map(|(node, weight)| NodeChange {
            node: *node,
            old: old.weights[node],
            new: *weight,
        })
        .collect();
    let writes = nodes.iter().any(|change| change.old != change.new);
    let switch = match (&wanted.switch, &old.switch) {
        // Weights that are written switch it off, so it is switched on again also if it is on now.
        (Some(then), Some(now)) if then.on && (writes || !now.on) => Some(true),
        (Some(then), Some(now)) if !then.on && now.on => Some(false),
        _ => None,
    };
    let switch = switch.and_then(|on| {
        let file = old.switch.as_ref()?.file.clone();
        Some(Switch { file, on })
    });
    let gone = gone.into_iter().map(|(node, _)| *node).collect();
    Ok((Plan { old, nodes, switch }, gone))
}

/// Writes `plan`; gives the nodes that the kernel weighs otherwise than planned once it weighs by itself again.
fn put_back(
    files: &dyn SystemFiles,
    state: &StateFile,
    plan: &Plan,
) -> Result<Vec<NodeChange>, ApplyError> {
    let weights = Plan {
        switch: plan.switch.clone().filter(|switch| !switch.on),
        ..plan.clone()
    };
    write(files, &weights, state)?;
    verify(files, &weights)?;
    let Some(switch) = plan.switch.as_ref().filter(|switch| switch.on) else {
        return Ok(Vec::new());
    };
    let path = format!("{FOLDER}/{}", switch.file);
    let switched =
        files
            .write(&path, "true")
            .and_then(|()| match read_switch(files, &switch.file) {
                Ok(true) => Ok(()),
                _ => Err(io::Error::other("it reads as off after true was written")),
            });
    switched.map_err(|source| ApplyError::AutoStaysOff {
        path: files.full(&path),
        source,
        saved: state.path().to_owned(),
    })?;
    let now = Settings::read(files)?;
    let found = |change: &NodeChange| NodeChange {
        node: change.node,
        old: change.new,
        new: now.weights.get(&change.node).copied().unwrap_or(change.new),
    };
    Ok(plan
        .nodes
        .iter()
        .map(found)
        .filter(|change| change.old != change.new)
        .collect())
}
