//! `tierloom pool grow` and `shrink`: files, and DAX devices with their size in sysfs.

use super::args::{GrowArgs, ShrinkArgs};
use super::{change, render, show};
use crate::failure::Failure;
use crate::output;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use tierloom_pool::capacity::{CapacitySource, DaxSource, FileSource, FixedSource};
use tierloom_pool::{Pool, PoolError, PoolStatus};
use tierloom_topology::SysRoot;

/// Makes a member larger, or adds one.
pub fn grow(args: &GrowArgs) -> Result<(), Failure> {
    let size = args.size.map(|size| size.0);
    let status = Pool::inspect(&args.pool)?;
    let pool = args.pool.display();
    if args.devices {
        return add_devices(args, &status);
    }
    let Some(member) = &args.member else {
        if !status.members.iter().any(|m| m.index == args.index) {
            let there = status.members.iter().map(|member| member.index.to_string());
            let there: Vec<String> = there.collect();
            let error = PoolError::UnknownMember {
                member: args.index.to_string(),
                existing: format!("members {}", there.join(", ")),
            };
            return Err(error.into());
        }
        if is_device(&status, args.index) {
            return grow_device(args, size);
        }
        let Some(bytes) = size else {
            return Err(Failure::input("--size says how large the member shall be"));
        };
        let what = format!("make member {} of {pool} {bytes} bytes long", args.index);
        return change(&args.pool, &args.change, &what, |pool| {
            pool.grow_member(args.index, bytes)
        });
    };
    // A file is made, a device and an empty file are there.
    let is_new = std::fs::symlink_metadata(member).is_err();
    let source: Box<dyn CapacitySource> = match is_new {
        true => Box::new(FileSource::new(member, size.unwrap_or(0))),
        false => Box::new(FixedSource::new(member, size)),
    };
    let what = format!("add {} to {pool}", member.display());
    grow_from(args, &what, source)
}

/// Adds what a source has.
fn grow_from(
    args: &GrowArgs,
    what: &str,
    mut source: Box<dyn CapacitySource + '_>,
) -> Result<(), Failure> {
    change(&args.pool, &args.change, what, |pool| {
        pool.grow_from(&mut *source, args.force).map(drop)
    })
}

/// Adds the DAX devices of this machine that the pool does not have.
fn add_devices(args: &GrowArgs, status: &PoolStatus) -> Result<(), Failure> {
    let had: Vec<PathBuf> = status.members.iter().map(|m| m.path.clone()).collect();
    let root = SysRoot::host();
    let mut source = DaxSource::new(&root, &had, args.tag);
    let offers = source.offers()?;
    if offers.is_empty() {
        let (what, pool) = (source.describe(), args.pool.display());
        return Err(Failure::input(format!(
            "there is nothing to add: {what} are all in {pool}, or there are none; `tierloom topology` \
             shows devices"
        )));
    }
    let names = offers.iter().map(|offer| offer.path.display().to_string());
    let names: Vec<String> = names.collect();
    let what = format!("add {} to {}", names.join(", "), args.pool.display());
    grow_from(args, &what, Box::new(DaxSource::new(&root, &had, args.tag)))
}

fn grow_device(args: &GrowArgs, size: Option<u64>) -> Result<(), Failure> {
    let options = args.change.manager.access().options;
    let (path, index, root) = (&args.pool, args.index, SysRoot::host());
    if args.change.dry_run {
        let resize = options.grow_device_plan(path, index, size, &root)?;
        let bytes = resize.to_bytes;
        let text = format!("would make member {index} {bytes} bytes long\n");
        return output::print(&(text + &render::resize(&resize)));
    }
    let (pool, _) = options.grow_device(path, index, size, &root)?;
    show(&pool.status(), args.change.json)
}

/// Makes a member smaller.
pub fn shrink(args: &ShrinkArgs) -> Result<(), Failure> {
    let (path, index) = (&args.pool, args.index);
    let Some(bytes) = args.size.map(|size| size.0) else {
        return remove(args);
    };
    let access = args.change.manager.access();
    if !args.keep_device && is_device(&Pool::inspect(path)?, index) {
        let (options, root) = (access.options, SysRoot::host());
        if args.change.dry_run {
            let (plan, resize) = options.shrink_device_plan(path, index, bytes, &root)?;
            let text = render::shrink(index, &plan) + &render::resize(&resize);
            return output::print(&text);
        }
        let (pool, _) = options.shrink_device(path, index, bytes, &root)?;
        return show(&pool.status(), args.change.json);
    }
    let pool = access.open(path)?;
    if args.change.dry_run {
        let plan = pool.shrink_plan(index, bytes)?;
        return output::print(&render::shrink(index, &plan));
    }
    pool.shrink_member(index, bytes)?;
    show(&pool.status(), args.change.json)
}

/// Removes a member.
fn remove(args: &ShrinkArgs) -> Result<(), Failure> {
    let (index, json) = (args.index, args.change.json);
    let pool = args.change.manager.access().open(&args.pool)?;
    if args.change.dry_run {
        let plan = pool.remove_plan(index)?;
        if json {
            return output::print_json(&plan);
        }
        return output::print(&render::removal_plan(index, &plan));
    }
    let removal = pool.remove_member(index)?;
    if json {
        let status = pool.status();
        return output::print_json(&serde_json::json!({ "removal": removal, "status": status }));
    }
    output::print(&render::removal(&removal))?;
    show(&pool.status(), false)
}

fn is_device(status: &PoolStatus, index: u32) -> bool {
    let member = status.members.iter().find(|member| member.index == index);
    let is_char = |path: &Path| {
        let data = std::fs::metadata(path);
        data.is_ok_and(|data| data.file_type().is_char_device())
    };
    member.is_some_and(|member| is_char(&member.path))
}
