//! Restoring saved weights.

use std::io;

use super::files::{FOLDER, SystemFiles};
use super::kernel::{verify, write};
use super::settings::read_switch;
use super::{
    ApplyError, InterleaveSettings, NodeChange, Saved, SavedState, StateFile, Switch, WeightsChange,
};

/// What [`restore`] has done, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoredWeights {
    /// There is no saved state: nothing was set, or it was restored already.
    Nothing,
    /// The machine was rebooted after the state was saved, so the kernel has its default weights.
    Rebooted(Saved),
    /// Writes made, or with `do_it: false` the writes that would be made.
    Back {
        /// State that was saved before the first change.
        saved: Saved,
        /// Writes that lead back to it.
        plan: WeightsChange,
        /// Nodes of the saved state that no longer exist.
        gone: Vec<u32>,
        /// Nodes whose weight changed when automatic weights were switched on again.
        ///
        /// This happens if firmware now reports other bandwidths. `old` is the saved weight.
        reweighed: Vec<NodeChange>,
    },
}

/// Restores the saved state and deletes it; with `do_it: false` only computes the writes.
///
/// A second call finds nothing to do.
///
/// # Errors
/// [`ApplyError`]; the saved state is then kept, and the call can be repeated.
pub fn restore(
    files: &dyn SystemFiles,
    state: &StateFile,
    do_it: bool,
) -> Result<RestoredWeights, ApplyError> {
    let Some(saved) = state.read::<Saved>()? else {
        return Ok(RestoredWeights::Nothing);
    };
    // Read again under the lock: another process may have restored or applied in between.
    let _lock = do_it.then(|| state.lock()).transpose()?;
    let saved = match do_it {
        true => match state.read::<Saved>()? {
            Some(saved) => saved,
            None => return Ok(RestoredWeights::Nothing),
        },
        false => saved,
    };
    if saved.is_of_another_boot(files) {
        if do_it {
            state.forget()?;
        }
        return Ok(RestoredWeights::Rebooted(saved));
    }
    let (plan, gone) = way_back(files, &saved)?;
    let mut reweighed = Vec::new();
    if do_it {
        plan.check_writable(files)?;
        reweighed = put_back(files, state, &plan)?;
        state.forget()?;
    }
    Ok(RestoredWeights::Back {
        saved,
        plan,
        gone,
        reweighed,
    })
}

/// Writes that lead back to `saved`, and the saved nodes that no longer exist.
fn way_back(
    files: &dyn SystemFiles,
    saved: &Saved,
) -> Result<(WeightsChange, Vec<u32>), ApplyError> {
    let old = InterleaveSettings::read(files)?;
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
        // Writing weights switches automatic weights off, so they have to be switched on even if
        // they are on now.
        (Some(then), Some(now)) if then.on && (writes || !now.on) => Some(true),
        (Some(then), Some(now)) if !then.on && now.on => Some(false),
        _ => None,
    };
    let switch = switch.and_then(|on| {
        let file = old.switch.as_ref()?.file.clone();
        Some(Switch { file, on })
    });
    let gone = gone.into_iter().map(|(node, _)| *node).collect();
    Ok((WeightsChange { old, nodes, switch }, gone))
}

/// Writes `plan`; returns the nodes whose weight changes once automatic weights are on again.
fn put_back(
    files: &dyn SystemFiles,
    state: &StateFile,
    plan: &WeightsChange,
) -> Result<Vec<NodeChange>, ApplyError> {
    // Weights first, and verified, while automatic weights are off: afterwards the kernel may
    // replace them.
    let weights = WeightsChange {
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
    let now = InterleaveSettings::read(files)?;
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
