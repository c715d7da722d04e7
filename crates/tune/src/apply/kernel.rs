//! Planning and writing of kernel weights.

use std::collections::BTreeMap;

use super::files::{FOLDER, SystemFiles};
use super::settings::node_file;
use super::{ApplyError, InterleaveSettings, Saved, SavedState, StateFile, Switch};

/// Conditions for switching automatic weights off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoPolicy {
    /// Whether the user has allowed it.
    pub may_go_off: bool,
    /// Whether firmware reports bandwidths, so that the kernel can switch them on again.
    pub can_come_back: bool,
}

/// Old and new weight of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeChange {
    /// Number of the node.
    pub node: u32,
    /// Weight in the kernel at present.
    pub old: u32,
    /// Weight to set; equal to `old` if nothing has to be written.
    pub new: u32,
}

/// Writes to be made.
///
/// Their order: the switch if it goes off, the nodes, the switch if it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightsChange {
    /// Settings in the kernel at present.
    pub old: InterleaveSettings,
    /// Nodes to set, in ascending order; all other nodes keep their weights.
    pub nodes: Vec<NodeChange>,
    /// New state of the switch; `None` leaves it alone.
    pub switch: Option<Switch>,
}

impl WeightsChange {
    /// Whether the kernel has all of these settings already.
    pub fn is_done(&self) -> bool {
        self.switch.is_none() && self.nodes.iter().all(|change| change.old == change.new)
    }

    /// Files and contents, in the order of writing.
    fn writes(&self) -> Vec<(String, String)> {
        let switch = self.switch.iter().map(|switch| {
            let text = if switch.on { "true" } else { "false" };
            (format!("{FOLDER}/{}", switch.file), text.to_owned())
        });
        let nodes = self.nodes.iter().filter(|change| change.old != change.new);
        let mut writes: Vec<_> = nodes
            .map(|change| (node_file(change.node), change.new.to_string()))
            .collect();
        // Writing any weight switches automatic weights off, so switching them on has to come last.
        let place = match &self.switch {
            Some(switch) if switch.on => writes.len(),
            _ => 0,
        };
        writes.splice(place..place, switch);
        writes
    }

    /// Checks that this process may write all of the plan, without writing.
    ///
    /// # Errors
    /// [`ApplyError::Io`] for the first file that it may not write.
    pub fn check_writable(&self, files: &dyn SystemFiles) -> Result<(), ApplyError> {
        self.writes().iter().try_for_each(|(path, _)| {
            files
                .may_write(path)
                .map_err(|error| ApplyError::io("write", files.full(path), error))
        })
    }
}

/// Computes the writes needed for the weights in `wanted`; reads only.
///
/// # Errors
/// [`ApplyError::NoSuchNode`] for a node without a weight in the kernel; [`ApplyError::AutoIsOn`]
/// if automatic weights would be switched off without permission; otherwise same as
/// [`InterleaveSettings::read`].
pub fn plan(
    files: &dyn SystemFiles,
    wanted: &BTreeMap<u32, u32>,
    auto: AutoPolicy,
) -> Result<WeightsChange, ApplyError> {
    let old = InterleaveSettings::read(files)?;
    let change = |(node, new): (&u32, &u32)| match old.weights.get(node) {
        Some(weight) => Ok(NodeChange {
            node: *node,
            old: *weight,
            new: *new,
        }),
        None => Err(ApplyError::NoSuchNode {
            node: *node,
            path: files.full(&node_file(*node)),
        }),
    };
    let nodes = wanted.iter().map(change).collect::<Result<Vec<_>, _>>()?;
    let writes = nodes.iter().any(|change| change.old != change.new);
    let switch = match &old.switch {
        Some(switch) if switch.on && writes => {
            if !auto.may_go_off {
                return Err(ApplyError::AutoIsOn {
                    path: files.full(&format!("{FOLDER}/{}", switch.file)),
                    lasting: if auto.can_come_back {
                        ""
                    } else {
                        "; firmware reports no bandwidths here, so it will stay off until the next boot"
                    },
                });
            }
            Some(Switch {
                file: switch.file.clone(),
                on: false,
            })
        }
        _ => None,
    };
    Ok(WeightsChange { old, nodes, switch })
}

/// What [`apply`] has written and saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Writes that were made.
    pub plan: WeightsChange,
    /// Whether this call saved the old state.
    ///
    /// `false` if the state of an earlier call is kept, or if nothing had to be written.
    pub saved_now: bool,
}

/// Sets the weights in `wanted`; `now` is RFC 3339.
///
/// The old state is saved in `state` first, unless a state of this boot is there already: that one
/// is from before all changes.
///
/// # Errors
/// [`ApplyError`]. The kernel and `state` are unchanged if nothing was written; after
/// [`ApplyError::Halfway`] and [`ApplyError::NotTaken`], [`super::restore`] can undo the changes.
pub fn apply(
    files: &dyn SystemFiles,
    wanted: &BTreeMap<u32, u32>,
    auto: AutoPolicy,
    state: &StateFile,
    now: &str,
) -> Result<Applied, ApplyError> {
    // A dry run first, before a lock or state file is created: it detects most problems.
    let early = plan(files, wanted, auto)?;
    early.check_writable(files)?;
    state.read::<Saved>()?;
    if early.is_done() {
        return Ok(Applied {
            plan: early,
            saved_now: false,
        });
    }
    let _lock = state.lock()?;
    // Plan again under the lock: another process may have changed the weights since.
    let plan = plan(files, wanted, auto)?;
    let earlier = state.read::<Saved>()?;
    let saved_now = earlier.is_none_or(|saved| saved.is_of_another_boot(files));
    if saved_now {
        state.save(&Saved::new(plan.old.clone(), now, files))?;
    }
    if let Err(error) = write(files, &plan, state) {
        if saved_now && !matches!(error, ApplyError::Halfway { .. }) {
            // Nothing was written, so there is nothing to restore.
            state.forget()?;
        }
        return Err(error);
    }
    verify(files, &plan)?;
    Ok(Applied { plan, saved_now })
}

pub(super) fn write(
    files: &dyn SystemFiles,
    plan: &WeightsChange,
    state: &StateFile,
) -> Result<(), ApplyError> {
    let writes = plan.writes();
    for (written, (path, text)) in writes.iter().enumerate() {
        files.write(path, text).map_err(|source| match written {
            0 => ApplyError::io("write", files.full(path), source),
            _ => ApplyError::Halfway {
                path: files.full(path),
                source,
                written,
                wanted: writes.len(),
                saved: state.path().to_owned(),
            },
        })?;
    }
    Ok(())
}

pub(super) fn verify(files: &dyn SystemFiles, plan: &WeightsChange) -> Result<(), ApplyError> {
    let now = InterleaveSettings::read(files)?;
    let not_taken = |path: String, wanted: String, found: String| ApplyError::NotTaken {
        path: files.full(&path),
        wanted,
        found,
    };
    for change in &plan.nodes {
        let found = now.weights.get(&change.node).copied();
        if found != Some(change.new) {
            let found = found.map_or("nothing".into(), |weight| weight.to_string());
            return Err(not_taken(
                node_file(change.node),
                change.new.to_string(),
                found,
            ));
        }
    }
    match (&plan.switch, &now.switch) {
        (Some(wanted), Some(found)) if wanted.on != found.on => Err(not_taken(
            format!("{FOLDER}/{}", wanted.file),
            wanted.on.to_string(),
            found.on.to_string(),
        )),
        _ => Ok(()),
    }
}
