//! Planning and setting weights.

use std::collections::BTreeMap;

use super::files::{FOLDER, SystemFiles};
use super::settings::node_file;
use super::{ApplyError, Saved, Settings, StateFile, Switch};

/// What may happen to the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoPolicy {
    /// The user allows that it goes off.
    pub may_go_off: bool,
    /// Firmware reports bandwidths of memory, so the kernel can switch it on again.
    pub can_come_back: bool,
}

/// The weight of a node before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeChange {
    /// The node.
    pub node: u32,
    /// What the kernel holds.
    pub old: u32,
    /// What it shall hold; equal to `old` if nothing is to be written.
    pub new: u32,
}

/// What is to be written, in this order: the switch if it goes off, the nodes, the switch if it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What the kernel holds now.
    pub old: Settings,
    /// The nodes of the plan, ascending; all other nodes stay as they are.
    pub nodes: Vec<NodeChange>,
    /// What the switch is set to; `None` if it stays.
    pub switch: Option<Switch>,
}

impl Plan {
    /// Whether the kernel holds everything already.
    pub fn is_done(&self) -> bool {
        self.switch.is_none() && self.nodes.iter().all(|change| change.old == change.new)
    }

    /// Files and texts in the order of writing.
    fn writes(&self) -> Vec<(String, String)> {
        let switch = self.switch.iter().map(|switch| {
            let text = if switch.on { "true" } else { "false" };
            (format!("{FOLDER}/{}", switch.file), text.to_owned())
        });
        let nodes = self.nodes.iter().filter(|change| change.old != change.new);
        let mut writes: Vec<_> = nodes
            .map(|change| (node_file(change.node), change.new.to_string()))
            .collect();
        // A weight that is written switches it off, so on comes last.
        let place = match &self.switch {
            Some(switch) if switch.on => writes.len(),
            _ => 0,
        };
        writes.splice(place..place, switch);
        writes
    }

    /// Whether this process may write all of it; writes nothing.
    ///
    /// # Errors
    /// [`ApplyError::Io`] naming the first file that it may not write.
    pub fn check_writable(&self, files: &dyn SystemFiles) -> Result<(), ApplyError> {
        self.writes().iter().try_for_each(|(path, _)| {
            files
                .may_write(path)
                .map_err(|error| ApplyError::io("write", files.full(path), error))
        })
    }
}

/// What setting `wanted` would write. Reads only.
///
/// # Errors
/// [`ApplyError::NoSuchNode`] for a node that the kernel has no weight for; [`ApplyError::AutoIsOn`] if the switch would go off and may
/// not; those of [`Settings::read`].
pub fn plan(
    files: &dyn SystemFiles,
    wanted: &BTreeMap<u32, u32>,
    auto: AutoPolicy,
) -> Result<Plan, ApplyError> {
    let old = Settings::read(files)?;
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
    Ok(Plan { old, nodes, switch })
}

/// What was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// What was written.
    pub plan: Plan,
    /// Whether the old state was saved now; `false` if that of an earlier call is kept, or nothing had to be written.
    pub saved_now: bool,
}

/// Sets the weights of `wanted`; the old state is saved in `state` first, unless one of this boot is there already. `now` is RFC 3339.
///
/// # Errors
/// [`ApplyError`]. If nothing was written the kernel and `state` are as before; [`ApplyError::Halfway`] and [`ApplyError::NotTaken`] leave
/// something to [`super::restore`].
pub fn apply(
    files: &dyn SystemFiles,
    wanted: &BTreeMap<u32, u32>,
    auto: AutoPolicy,
    state: &StateFile,
    now: &str,
) -> Result<Applied, ApplyError> {
    // First without touching anything: most of what can be wrong shows here.
    let early = plan(files, wanted, auto)?;
    early.check_writable(files)?;
    state.read()?;
    if early.is_done() {
        return Ok(Applied {
            plan: early,
            saved_now: false,
        });
    }
    let _lock = state.lock()?;
    let plan = plan(files, wanted, auto)?;
    let earlier = state.read()?;
    let saved_now = earlier.is_none_or(|saved| saved.is_of_another_boot(files));
    if saved_now {
        state.save(&Saved::new(plan.old.clone(), now, files))?;
    }
    if let Err(error) = write(files, &plan, state) {
        if saved_now && !matches!(error, ApplyError::Halfway { .. }) {
            // Nothing was written: there is nothing to put back.
            state.forget()?;
        }
        return Err(error);
    }
    verify(files, &plan)?;
    Ok(Applied { plan, saved_now })
}

pub(super) fn write(
    files: &dyn SystemFiles,
    plan: &Plan,
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

pub(super) fn verify(files: &dyn SystemFiles, plan: &Plan) -> Result<(), ApplyError> {
    let now = Settings::read(files)?;
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
