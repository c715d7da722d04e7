//! What is to be run, with everything that can be wrong in the arguments found.

use super::args::{MOST_SECONDS, StoreOptions, TpccArgs, YcsbArgs};
use super::beside::asked::BesidePlan;
use super::durable;
use crate::failure::Failure;
use crate::output;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;
use tierloom_memory::{PageSize, Placement, PlacementError, PlacementSpec};
use tierloom_model::Machine;
use tierloom_oltp::StorePart;
use tierloom_oltp::tpcc::{Tpcc, TpccSizes};
use tierloom_oltp::ycsb::{Ycsb, YcsbMix};
use tierloom_placement::tier_shares;
use tierloom_topology::Topology;

/// More are not threads any more that a machine can run.
const MOST_CLIENTS: u32 = 4096;
/// Orders and inserts of a second and CPU that there is room for by default.
const ORDERS_PER_S: f64 = 20_000.0;
const INSERTS_PER_S: f64 = 50_000.0;
/// So many times as much as long as it is little memory: fast processors do more than that.
const AMPLE: f64 = 4.0;
const LITTLE: f64 = 1e6;

/// The workload with its sizes.
#[derive(Debug, Clone, Copy)]
pub enum StoreWorkload {
    Tpcc(TpccSizes),
    Ycsb { mix: YcsbMix, rows: u64, room: u64 },
}

impl StoreWorkload {
    /// As records say it.
    pub fn id(&self) -> String {
        match self {
            Self::Tpcc(_) => "tpcc".to_owned(),
            Self::Ycsb { mix, .. } => format!("ycsb-{}", mix.letter()),
        }
    }

    /// Warehouses or rows.
    pub fn scale(&self) -> u64 {
        match self {
            Self::Tpcc(sizes) => u64::from(sizes.warehouses),
            Self::Ycsb { rows, .. } => *rows,
        }
    }
}

/// A placement of all parts.
#[derive(Debug, Clone)]
pub struct StorePlacement {
    /// As given.
    pub text: String,
    /// By part, in the order of [`StorePart::ALL`].
    pub specs: [PlacementSpec; 4],
    /// The same on this machine; `None` if it lacks a tier.
    pub here: Option<[Placement; 4]>,
}

/// What is to be run.
#[derive(Debug)]
pub struct StorePlan {
    pub workload: StoreWorkload,
    pub clients: u32,
    pub duration: Duration,
    pub seed: u64,
    pub page_size: PageSize,
    pub placements: Vec<StorePlacement>,
    pub machines: Vec<(Machine, u32)>,
    pub log: Option<PathBuf>,
    pub recovers: bool,
    /// Pool of the checkpoints, and the time between two of them.
    pub checkpoints: Option<(PathBuf, Duration)>,
    /// Clients on modelled machines; `None` for as many as workers.
    pub model_clients: Option<u32>,
    /// Streams of queries beside the transactions.
    pub beside: Option<BesidePlan>,
    pub topology: Topology,
}

impl StorePlan {
    /// The plan of `run tpcc`.
    ///
    /// # Errors
    /// Bad input.
    pub fn tpcc(args: &TpccArgs) -> Result<Self, Failure> {
        let most = Tpcc::MOST_WAREHOUSES;
        if !(1..=most).contains(&args.warehouses) {
            let given = args.warehouses;
            return Err(Failure::input(format!(
                "--warehouses {given}: expected a number from 1 to {most}"
            )));
        }
        let mut plan = Self::common(&args.options)?;
        let room = plan.room(args.room, ORDERS_PER_S)?;
        plan.workload = StoreWorkload::Tpcc(TpccSizes::of_specification(args.warehouses, room));
        if let Some(log) = &args.log {
            durable::checked_log(log)?;
        }
        plan.checkpoints = durable::checkpoints_of(args, plan.duration)?;
        (plan.log, plan.recovers) = (args.log.clone(), args.recover);
        plan.model_clients = args
            .model_clients
            .map(|clients| checked_clients("--model-clients", clients))
            .transpose()?;
        Ok(plan)
    }

    /// The plan of `run ycsb`.
    ///
    /// # Errors
    /// Bad input.
    pub fn ycsb(args: &YcsbArgs) -> Result<Self, Failure> {
        let wanted = args.workload.to_ascii_lowercase();
        let named = |mix: &YcsbMix| mix.letter().to_string() == wanted;
        let mix = YcsbMix::ALL.into_iter().find(named).ok_or_else(|| {
            let given = &args.workload;
            Failure::input(format!("--workload {given}: expected a letter from a to f"))
        })?;
        let (rows, least) = (args.rows, Ycsb::LEAST_ROWS);
        if !(least..=1 << 31).contains(&rows) {
            let most = 1_u64 << 31;
            return Err(Failure::input(format!(
                "--rows {rows}: expected a number from {least} to {most}"
            )));
        }
        let mut plan = Self::common(&args.options)?;
        let inserts = matches!(mix, YcsbMix::D | YcsbMix::E);
        let room = plan.room(args.room, if inserts { INSERTS_PER_S } else { 0.0 })?;
        plan.workload = StoreWorkload::Ycsb { mix, rows, room };
        Ok(plan)
    }

    fn common(options: &StoreOptions) -> Result<Self, Failure> {
        let outputs = [
            ("--records", options.records.as_deref()),
            ("--report", options.report.as_deref()),
        ];
        output::check_outputs(&outputs, &[])?;
        let seconds = options.seconds;
        if !(seconds > 0.0 && seconds <= MOST_SECONDS) {
            return Err(Failure::input(format!(
                "--seconds {seconds}: expected a number above 0, at most {MOST_SECONDS}"
            )));
        }
        let topology = options.here.read()?;
        if options.here.sysroot.is_some() && !options.dry_run {
            return Err(Failure::input(
                "--sysroot describes another machine, and transactions can only be measured on this one; add --dry-run to see the plan for it",
            ));
        }
        let clients = match options.clients {
            Some(clients) => checked_clients("--clients", clients)?,
            None => cpus(),
        };
        let beside = BesidePlan::of(options, &topology)?;
        let load = |name: &String| {
            let machine = tierloom_suite::machine::load(name)?;
            let asked = match &beside {
                Some(beside) => Some(beside.other_workers(&machine, options.model_workers)?),
                None => options.model_workers,
            };
            let workers = machine.workers(asked).map_err(Failure::input)?;
            Ok::<_, Failure>((machine, workers))
        };
        let machines = options
            .machine
            .iter()
            .map(load)
            .collect::<Result<Vec<_>, _>>()?;
        let page_size = options.pages.parse().map_err(Failure::input)?;
        let placements = placements(&options.placement, &topology, &machines)?;
        Ok(Self {
            // Replaced by who calls.
            workload: StoreWorkload::Tpcc(TpccSizes::of_specification(1, 1)),
            clients,
            duration: Duration::from_secs_f64(seconds),
            seed: options.seed,
            page_size,
            placements,
            machines,
            log: None,
            recovers: false,
            checkpoints: None,
            model_clients: None,
            beside,
            topology,
        })
    }

    fn room(&self, asked: Option<u64>, per_s: f64) -> Result<u64, Failure> {
        const MOST: u64 = 200_000_000;
        let cpus = f64::from(self.clients.min(cpus()));
        let runs = self.beside.as_ref().map_or(1, BesidePlan::runs);
        let seconds = self.duration.as_secs_f64() * f64::from(runs);
        let least = seconds * per_s * cpus;
        let default = least.max(LITTLE.min(least * AMPLE)).ceil() as u64;
        match asked.unwrap_or(default.clamp(1000, MOST)) {
            room if (1..=MOST).contains(&room) => Ok(room),
            room => Err(Failure::input(format!(
                "--room {room}: expected a number from 1 to {MOST}"
            ))),
        }
    }

    /// The plan as text, for `--dry-run`.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        let what = match self.workload {
            StoreWorkload::Tpcc(sizes) => format!(
                "tpcc: {} warehouses, room for {} new orders",
                sizes.warehouses, sizes.room_orders
            ),
            StoreWorkload::Ycsb { mix, rows, room } => {
                let letter = mix.letter();
                format!("ycsb {letter}: {rows} rows, room for {room} more")
            }
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{what}; seed {}", self.seed);
        let seconds = self.duration.as_secs_f64();
        let _ = writeln!(
            text,
            "{} clients for {seconds} s, pages {}",
            self.clients, self.page_size
        );
        if let Some(log) = &self.log {
            let _ = writeln!(text, "commits are durable in {}", log.display());
        }
        if let Some((pool, every)) = &self.checkpoints {
            let (pool, every) = (pool.display(), every.as_secs_f64());
            let _ = writeln!(text, "a checkpoint in {pool} after every {every} s");
        }
        if let Some(beside) = &self.beside {
            text.push_str(&beside.describe());
        }
        for placement in &self.placements {
            let parts = StorePart::ALL.iter().zip(&placement.specs);
            let parts: Vec<String> = parts
                .map(|(part, spec)| format!("{} {spec}", part.name()))
                .collect();
            let how = match placement.here {
                Some(_) => "measured here",
                None => "not on this machine",
            };
            let _ = writeln!(text, "{}: {} ({how})", placement.text, parts.join(", "));
        }
        for (machine, workers) in &self.machines {
            let _ = write!(text, "modelled: {} with {workers} workers", machine.name);
            let _ = match (&self.log, self.model_clients.unwrap_or(*workers)) {
                (Some(_), clients) => writeln!(text, ", {clients} clients that wait for the log"),
                (None, _) => writeln!(text),
            };
        }
        text
    }
}

fn checked_clients(option: &str, clients: u32) -> Result<u32, Failure> {
    match (1..=MOST_CLIENTS).contains(&clients) {
        true => Ok(clients),
        false => Err(Failure::input(format!(
            "{option} {clients}: expected a number from 1 to {MOST_CLIENTS}"
        ))),
    }
}

/// CPUs that this process may use.
pub(super) fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32)
}

/// The placements of a list, each of which can be had here or on a machine.
fn placements(
    text: &str,
    here: &Topology,
    machines: &[(Machine, u32)],
) -> Result<Vec<StorePlacement>, Failure> {
    let refused = |piece: &str, why: String| Failure::input(format!("--placement {piece}: {why}"));
    let pieces = tierloom_text::list(text).map_err(|e| refused(text, e.to_string()))?;
    let mut placements = Vec::new();
    for piece in pieces {
        let specs = parts(&piece).map_err(|why| refused(&piece, why))?;
        let resolved = specs.iter().map(|spec| spec.resolve(here));
        let on_a_machine = machines
            .iter()
            .any(|(machine, _)| specs.iter().all(|spec| tier_shares(spec, machine).is_ok()));
        let here = match resolved.collect::<Result<Vec<_>, _>>() {
            Ok(placements) => <[Placement; 4]>::try_from(placements).ok(),
            Err(PlacementError::UnknownTier { .. }) if on_a_machine => None,
            Err(error) => return Err(refused(&piece, error.to_string())),
        };
        placements.push(StorePlacement {
            text: piece,
            specs,
            here,
        });
    }
    if placements.iter().all(|placement| placement.here.is_none()) {
        return Err(refused(
            text,
            "this machine has none of these; add one that it has, such as dram, from which the others are modelled".to_owned(),
        ));
    }
    Ok(placements)
}

/// The placement of each part in one piece of the list.
fn parts(piece: &str) -> Result<[PlacementSpec; 4], String> {
    let read = |text: &str| text.parse::<PlacementSpec>().map_err(|e| e.to_string());
    let names = |word: &str| {
        let word = word.trim();
        let part = StorePart::ALL.into_iter().find(|part| part.name() == word);
        match word {
            "index" => Some(vec![StorePart::Leaves, StorePart::Inner]),
            _ => part.map(|part| vec![part]),
        }
    };
    let dram = read("dram")?;
    let mut specs = [(); 4].map(|()| dram.clone());
    let mut set = [false; 4];
    for one in piece.split('+') {
        let named = one
            .split_once('=')
            .and_then(|(name, rest)| Some((names(name)?, rest)));
        let Some((parts, rest)) = named else {
            // A share (`0=70%`) has another word before the sign.
            if piece.contains('+') {
                return Err(format!(
                    "{one:?} names no part; expected main, heap, index, leaves or inner, as in main=cxl+heap=dram"
                ));
            }
            let spec = read(one)?;
            return Ok([(); 4].map(|()| spec.clone()));
        };
        let spec = read(rest)?;
        for part in parts {
            if std::mem::replace(&mut set[part as usize], true) {
                return Err(format!("{} is placed twice", part.name()));
            }
            specs[part as usize] = spec.clone();
        }
    }
    Ok(specs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(piece: &str) -> String {
        let specs = parts(piece).unwrap();
        specs.map(|spec| spec.to_string()).join(" | ")
    }

    #[test]
    fn parts_are_placed_alone_or_all_together() {
        assert_eq!(shown("cxl"), "cxl | cxl | cxl | cxl");
        assert_eq!(shown("main=cxl"), "cxl | dram | dram | dram");
        assert_eq!(
            shown("heap=3:2+index=remote"),
            "dram | dram:3,cxl:2 | remote | remote"
        );
        assert_eq!(shown("inner=[0:3,2:2]"), "dram | dram | dram | 0:3,2:2");
        assert_eq!(shown("0=70%,2=30%"), ["0=70%,2=30%"; 4].join(" | "));
    }

    #[test]
    fn wrong_parts_are_named() {
        assert!(
            parts("man=cxl+heap=cxl")
                .unwrap_err()
                .contains("names no part")
        );
        assert!(
            parts("index=cxl+inner=dram")
                .unwrap_err()
                .contains("inner is placed twice")
        );
        assert!(parts("main=cxk").unwrap_err().contains("cxk"));
    }
}
