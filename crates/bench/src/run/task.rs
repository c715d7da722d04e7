//! Prepares tasks: checks the plan against the machine, maps and fills memory, checks data after.

use std::path::Path;

use tierloom_kernels::access::{Chain, Kernel, Operation, Order, Sampler, SharedBytes};
use tierloom_memory::mapping::{MapRequest, MapWhat};
use tierloom_operators::Filled;
use tierloom_record::{RegionRecord, Remark};
use tierloom_topology::IdSet;

use super::operator::{check_new_files, check_operator, region_name};
use super::region::{self, ReadyRegion};
use super::{BenchError, Host, pin};
use crate::plan::{Amount, MapSharing, MemoryPlan, RunPlan, Sharing, TaskPlan, Work};

/// What the threads of a task are created from.
#[derive(Debug)]
pub(super) enum Tools {
    Stream(Kernel),
    Single(Sampler),
    Chase,
    Mapping(Box<MapRequest>),
    Custom(Chain),
    Operator,
}

/// A task without its memory: what its threads need to know.
#[derive(Debug)]
pub(super) struct Spec<'p> {
    pub(super) plan: &'p TaskPlan,
    /// Position in the workload file, for errors.
    pub(super) place: String,
    pub(super) cpus: Vec<IdSet>,
    pub(super) tools: Tools,
    /// Size of the first region, bytes; 0 if the threads map it themselves.
    pub(super) memory_bytes: usize,
}

/// A task with its memory.
#[derive(Debug)]
pub(super) struct ReadyTask<'p> {
    pub(super) spec: Spec<'p>,
    pub(super) regions: Vec<ReadyRegion>,
    /// Records of the regions that the threads of a mapping task map themselves.
    mapped: Vec<RegionRecord>,
    /// The operator with its input; `None` for all other work.
    pub(super) filled: Option<Box<dyn Filled>>,
    pub(super) prepare_s: f64,
}

impl<'p> ReadyTask<'p> {
    /// Checks everything that needs no memory, so that errors appear before any page is touched.
    pub(super) fn check(run: &RunPlan, plan: &TaskPlan, host: &Host) -> Result<(), BenchError> {
        let place = place_of(run, plan);
        pin::resolve(&plan.workers, &host.topology, &place)?;
        // Created only to learn whether this processor supports the accesses.
        tools(plan, host, &place)?;
        for (index, region) in plan.regions.iter().enumerate() {
            region
                .placement
                .resolve(&host.topology)
                .map_err(|error| BenchError::placement(&place, error))?;
            if let MemoryPlan::Devdax { .. } = &region.memory {
                region::check_device(region, &region_name(plan, index), host, &place)?;
            }
            // A mapping task never writes to the file, so it may use an existing one.
            if let MemoryPlan::File { path, .. } = &region.memory
                && Path::new(path).is_file()
                && !host.overwrite
                && !matches!(plan.work, Work::Mapping { .. })
            {
                return Err(BenchError::plan(
                    &place,
                    format!(
                        "{}: {path} exists and its contents would be overwritten; name a folder or a new file, or add --overwrite",
                        region_name(plan, index)
                    ),
                ));
            }
        }
        check_new_files(plan, &place)?;
        match plan.amount {
            Amount::Seconds(seconds) if !(seconds.is_finite() && seconds > 0.0) => {
                Err(BenchError::plan(
                    &place,
                    format!("run time of {seconds} s; expected more than 0"),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Maps the regions and fills them.
    pub(super) fn make(run: &RunPlan, plan: &'p TaskPlan, host: &Host) -> Result<Self, BenchError> {
        let place = place_of(run, plan);
        let cpus = pin::resolve(&plan.workers, &host.topology, &place)?;
        let tools = tools(plan, host, &place)?;
        let (mut regions, mut mapped) = (Vec::new(), Vec::new());
        for (index, region) in plan.regions.iter().enumerate() {
            let name = region_name(plan, index);
            // Mapping tasks time the mapping itself, so nothing is mapped for them here.
            if matches!(tools, Tools::Mapping(_)) {
                mapped.push(region::mapped(region, &name, host, &place)?);
                continue;
            }
            let memories = host.memories.as_ref();
            let ready = ReadyRegion::make(region, &name, &host.topology, memories, &place)?;
            regions.push(ready);
        }
        let mut task = Self {
            spec: Spec {
                plan,
                place,
                cpus,
                tools,
                memory_bytes: regions.first().map_or(0, |r| r.region.size_bytes()),
            },
            regions,
            mapped,
            filled: None,
            prepare_s: 0.0,
        };
        let start = std::time::Instant::now();
        task.fill(run.seed)?;
        let fill_s = start.elapsed().as_secs_f64();
        // After filling, so that the audit sees every page that filling touches first.
        task.regions.iter_mut().for_each(ReadyRegion::look_before);
        task.prepare_s = fill_s + task.regions.iter().map(|r| r.prepare_s).sum::<f64>();
        Ok(task)
    }

    /// Initialises the regions.
    ///
    /// Counters for atomic operations start at zero, so that the sum can be checked; a chase writes
    /// its own ring later; an operator gets its input; everything else starts with the pattern.
    fn fill(&mut self, seed: u64) -> Result<(), BenchError> {
        if let Some(operator) = self.spec.operator() {
            let slices = self.regions.iter_mut().map(|r| r.region.as_mut_slice());
            let mut slices: Vec<&mut [u8]> = slices.collect();
            let threads = self.spec.plan.workers.threads;
            self.filled = Some(operator.fill(&mut slices, threads, seed));
            return Ok(());
        }
        if matches!(self.spec.tools, Tools::Chase) {
            return Ok(());
        }
        let zeros = self.spec.operation().is_some_and(Operation::is_atomic);
        let part_bytes = self.spec.part_bytes();
        let across = self.spec.copies_across();
        for (index, ready) in self.regions.iter_mut().enumerate() {
            let memory = ready.region.as_mut_slice();
            // The pattern in a destination would not tell whether it was copied.
            if zeros || (across && index > 0) {
                memory.fill(0);
                continue;
            }
            for part in memory.chunks_mut(part_bytes) {
                region::fill(SharedBytes::new(part), &self.spec.place)?;
            }
        }
        Ok(())
    }

    /// The records of the regions, with a second page audit, and their remarks.
    pub(super) fn finish_regions(&self) -> (Vec<RegionRecord>, Vec<Remark>) {
        let mut all = Vec::new();
        for ready in &self.regions {
            let (record, mut remarks) = ready.finish();
            for remark in &mut remarks {
                remark.text = format!("{}: {}", self.spec.plan.name, remark.text);
            }
            all.push((record, remarks));
        }
        let (records, remarks): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        ([self.mapped.clone(), records].concat(), remarks.concat())
    }
}

impl Spec<'_> {
    /// The operation, if all accesses of the task are of one kind.
    pub(super) fn operation(&self) -> Option<Operation> {
        match &self.plan.work {
            Work::Throughput { access, .. } | Work::Latency { access, .. } => {
                Some(access.operation)
            }
            _ => None,
        }
    }

    /// Whether the task copies from its first region to its second.
    pub(super) fn copies_across(&self) -> bool {
        let copies = matches!(
            self.operation(),
            Some(Operation::Copy | Operation::StreamCopy)
        );
        copies && self.plan.regions.len() > 1
    }

    /// Bytes of the memory that places are in, for a source or region of `bytes`: those of a copy
    /// are in the first half.
    pub(super) fn places_bytes(&self, bytes: usize) -> usize {
        bytes * if self.copies_across() { 2 } else { 1 }
    }

    /// Bytes of memory that one thread works on: its part or the whole region; parts are whole
    /// pages.
    pub(super) fn part_bytes(&self) -> usize {
        let whole = self.memory_bytes;
        let own_part = matches!(
            self.plan.work,
            Work::Chase { .. }
                | Work::Throughput {
                    sharing: Sharing::Partitioned,
                    ..
                }
        );
        if own_part {
            (whole / self.plan.workers.threads.max(1) as usize / 4096 * 4096).max(4096)
        } else {
            whole.max(1)
        }
    }

    /// Bytes that one operation accesses.
    pub(super) fn bytes_per_operation(&self) -> u64 {
        match &self.plan.work {
            Work::Throughput { access, .. } | Work::Latency { access, .. } => {
                let bytes = access.access_bytes as u64;
                match access.operation {
                    Operation::Copy | Operation::StreamCopy => 2 * bytes,
                    Operation::CompareAndSwap | Operation::FetchAdd => 8,
                    Operation::Nop => 0,
                    _ => bytes,
                }
            }
            Work::Chase { .. } => 64,
            Work::Mapping { .. } => self.plan.regions.first().map_or(0, |r| r.size_bytes),
            Work::Custom { chain, .. } => chain.iter().map(|step| step.size_bytes as u64).sum(),
            // A tuple goes through several phases; the record has the bytes of each.
            Work::Operator { .. } => 0,
        }
    }

    /// Number of operations of one repetition, all threads together; `None` if it ends by time.
    pub(super) fn operations(&self) -> Option<u64> {
        let size_bytes = self.plan.regions.first().map_or(0, |r| r.size_bytes);
        match self.plan.amount {
            Amount::Seconds(_) => None,
            Amount::Operations(operations) => Some(operations),
            // Operations without data transfer have 0 bytes each.
            Amount::Bytes(bytes) => Some(bytes / self.bytes_per_operation().max(1)),
            Amount::Passes(passes) => Some(passes.saturating_mul(match &self.plan.work {
                Work::Throughput { access, .. } | Work::Latency { access, .. } => {
                    let span = match access.operation {
                        Operation::Copy | Operation::StreamCopy if !self.copies_across() => {
                            size_bytes / 2
                        }
                        _ => size_bytes,
                    };
                    span / access.stride_bytes as u64
                }
                Work::Chase { .. } => size_bytes / 64,
                Work::Mapping { .. } => 1,
                Work::Custom { .. } => size_bytes / self.bytes_per_operation().max(64),
                Work::Operator { operator } => operator.tuples(self.plan.workers.threads),
            })),
        }
    }

    /// The access as text, for the record.
    pub(super) fn access_words(&self) -> String {
        let single = |access: &tierloom_kernels::access::Access| {
            let order = match access.order {
                Order::Ascending => "ascending".into(),
                Order::Descending => "descending".into(),
                Order::Random(tierloom_kernels::access::Distribution::Uniform) => "random".into(),
                Order::Random(tierloom_kernels::access::Distribution::Zipf { alpha }) => {
                    format!("zipf {alpha}")
                }
            };
            let mut words = format!(
                "{}, {order}, {} B, {}",
                access.operation, access.access_bytes, access.simd
            );
            if access.stride_bytes != access.access_bytes {
                words += &format!(", every {} B", access.stride_bytes);
            }
            if access.cache_op != tierloom_kernels::access::CacheOp::None {
                words += &format!(", {}", access.cache_op);
            }
            if access.prefetch_bytes > 0 {
                words += &format!(", prefetch {} B ahead", access.prefetch_bytes);
            }
            words
        };
        match &self.plan.work {
            Work::Throughput { access, .. } | Work::Latency { access, .. } => single(access),
            Work::Chase { locality } => format!("dependent loads, {locality:?}").to_lowercase(),
            Work::Mapping {
                action,
                sharing,
                populate,
            } => format!(
                "{action:?} {sharing:?}{}",
                if *populate { ", populated" } else { "" }
            )
            .to_lowercase(),
            Work::Custom { chain, .. } => format!("chain of {} accesses", chain.len()),
            Work::Operator { operator } => operator.to_string(),
        }
    }
}

fn place_of(run: &RunPlan, task: &TaskPlan) -> String {
    let file = if run.file.is_empty() {
        run.workload.clone()
    } else {
        format!("{}:{}: {}", run.file, run.line, run.workload)
    };
    if run.tasks.len() == 1 {
        file
    } else {
        format!("{file}, task {}", task.name)
    }
}

fn tools(plan: &TaskPlan, host: &Host, place: &str) -> Result<Tools, BenchError> {
    let wrong = |error| BenchError::access(place, error);
    if plan.regions.is_empty() {
        return Err(BenchError::plan(place, "no memory region"));
    }
    Ok(match &plan.work {
        Work::Throughput { access, .. } => {
            let copies = matches!(access.operation, Operation::Copy | Operation::StreamCopy);
            if let ([source, to, ..], true) = (plan.regions.as_slice(), copies)
                && to.size_bytes < source.size_bytes
            {
                let problem = "the destination of a copy is smaller than its source";
                return Err(BenchError::plan(place, problem));
            }
            Tools::Stream(Kernel::new(*access).map_err(wrong)?)
        }
        Work::Latency {
            access,
            sample_every,
            line,
            fence,
        } => {
            if *sample_every == 0 {
                return Err(BenchError::plan(
                    place,
                    "a latency is to be sampled every 0th time; expected 1 or more",
                ));
            }
            Tools::Single(Sampler::new(*access, *line, *fence).map_err(wrong)?)
        }
        Work::Chase { .. } => Tools::Chase,
        Work::Mapping {
            sharing, populate, ..
        } => Tools::Mapping(Box::new(map_request(
            plan, *sharing, *populate, host, place,
        )?)),
        Work::Custom { chain, .. } => {
            let most = chain.iter().map(|step| usize::from(step.region)).max();
            if most.is_some_and(|region| region >= plan.regions.len()) {
                return Err(BenchError::plan(
                    place,
                    "the chain uses region m1, which has no size; add secondary_memory_region_size",
                ));
            }
            Tools::Custom(Chain::new(chain, tierloom_kernels::Simd::detect()).map_err(wrong)?)
        }
        Work::Operator { operator } => {
            check_operator(plan, operator, place)?;
            Tools::Operator
        }
    })
}

fn map_request(
    plan: &TaskPlan,
    sharing: MapSharing,
    populate: bool,
    host: &Host,
    place: &str,
) -> Result<MapRequest, BenchError> {
    // `tools` has checked that there is a region.
    let region = &plan.regions[0];
    let shared = sharing == MapSharing::Shared;
    let what = match &region.memory {
        MemoryPlan::Anonymous | MemoryPlan::KernelInterleave { .. } if shared => {
            MapWhat::AnonymousShared
        }
        MemoryPlan::Anonymous | MemoryPlan::KernelInterleave { .. } => MapWhat::AnonymousPrivate,
        MemoryPlan::File { path, .. } => MapWhat::File {
            path: path.into(),
            shared,
        },
        MemoryPlan::Devdax { path, offset_bytes } => MapWhat::Devdax {
            path: path.into(),
            offset_bytes: *offset_bytes,
        },
    };
    match &region.memory {
        MemoryPlan::KernelInterleave { .. } => {
            return Err(BenchError::plan(
                place,
                "mappings are timed without the kernel's interleaving; name a placement (as in dram:3,cxl:2) instead",
            ));
        }
        MemoryPlan::File { offset_bytes, .. } if *offset_bytes != 0 => {
            return Err(BenchError::plan(
                place,
                "mappings of files are timed from their start; leave the offset out",
            ));
        }
        MemoryPlan::File { path, .. } if Path::new(path).is_dir() => {
            return Err(BenchError::plan(
                place,
                format!(
                    "{path} is a folder; mappings are timed on a file that is there (fallocate -l SIZE FILE makes one)"
                ),
            ));
        }
        _ => {}
    }
    let request = MapRequest {
        what,
        size_bytes: region.page_size.round_up(region.size_bytes as usize),
        page_size: region.page_size,
        nodes: region
            .placement
            .resolve(&host.topology)
            .map_err(|error| BenchError::placement(place, error))?,
        populate,
    };
    request
        .check(&host.topology)
        .map_err(|error| BenchError::memory(place, error))?;
    Ok(request)
}
