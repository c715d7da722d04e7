//! `tierloom predict --nodes N`: a query or a benchmark on several machines, as text.

use super::render::{number, table};
use crate::commands::cluster::ClusterBackend;
use crate::failure::Failure;
use crate::output;
use comfy_table::Table;
use tierloom_model::cluster::{ModelledBackend, ShuffleOn};
use tierloom_predict::{ClusterPrediction, ClusterRequest, ClusterSize, Counts, Request};
use tierloom_text::Bytes;

/// Several machines.
#[derive(clap::Args)]
#[command(next_help_heading = "Several machines")]
pub struct ClusterArgs {
    /// Price ssb, tpch or a recorded query of them on this number of machines, as `tierloom
    /// cluster` runs it; several numbers for one line each
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N",
        requires_all = ["network_gbps", "network_us"],
        conflicts_with_all = ["versus", "sensitivity", "phases"]
    )]
    nodes: Vec<u32>,
    /// Bandwidth of each machine's network link in each direction, GB/s (100 Gbit/s are 12.5)
    #[arg(long, requires = "nodes", value_name = "GB/S")]
    network_gbps: Option<f64>,
    /// Time from a request to the first byte of its answer, microseconds
    #[arg(long, requires = "nodes", value_name = "US")]
    network_us: Option<f64>,
    /// Who gives out work and ends statements, as for `tierloom cluster sql`
    #[arg(
        long,
        requires = "nodes",
        value_name = "BACKEND",
        default_value = "distributed"
    )]
    backend: ClusterBackend,
    /// Shards of each fact table; default: the same number on every machine, at least 16 in all
    #[arg(long, requires = "nodes", value_name = "N")]
    shards: Option<u32>,
    /// Clients that ask at the same time, for the throughput; default: 16
    #[arg(long, requires = "nodes", value_name = "N")]
    streams: Option<u32>,
    /// Planning and answering a statement, milliseconds; default: as measured
    /// (docs/cluster-model.md)
    #[arg(long, requires = "nodes", value_name = "MS")]
    statement_ms: Option<f64>,
    /// Work of the scheduler, or the client, for a task, microseconds; default: as measured
    #[arg(long, requires = "nodes", value_name = "US")]
    task_us: Option<f64>,
    /// Work of the scheduler, or the client, for a task and each shard of the table, microseconds;
    /// default: as measured
    #[arg(long, requires = "nodes", value_name = "US")]
    task_shard_us: Option<f64>,
    /// Work of the scheduler, or the client, for each shard of a statement, microseconds; default:
    /// as measured
    #[arg(long, requires = "nodes", value_name = "US")]
    shard_us: Option<f64>,
    /// Work of a machine for a result: that of a shard for the final plan, or with `distributed`
    /// the rows of another machine; microseconds; default: as measured
    #[arg(long, requires = "nodes", value_name = "US")]
    fetch_us: Option<f64>,
    /// Tier in whose memory machines write the rows that they pass on, with `--backend ballista`;
    /// default: neither writing nor reading them takes time
    #[arg(
        long,
        requires = "nodes",
        value_name = "TIER",
        conflicts_with = "shuffle_gbps"
    )]
    shuffle: Option<String>,
    /// Instead of a tier, GB/s with which a machine writes these rows and with which they are read,
    /// as on a disk
    #[arg(long, requires = "nodes", value_name = "WRITE,READ", value_parser = two_rates)]
    shuffle_gbps: Option<[f64; 2]>,
}

impl From<ClusterBackend> for ModelledBackend {
    fn from(backend: ClusterBackend) -> Self {
        match backend {
            ClusterBackend::Ballista => ModelledBackend::Ballista,
            ClusterBackend::Distributed => ModelledBackend::Distributed,
        }
    }
}

/// Two numbers with a comma.
fn two_rates(text: &str) -> Result<[f64; 2], String> {
    let parsed = text.split_once(',').and_then(|(write, read)| {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        Some([number(write)?, number(read)?])
    });
    parsed.ok_or_else(|| "expected two numbers of GB/s, for writing and reading: 2,5".into())
}

impl ClusterArgs {
    /// The part of the question that is about several machines; `None` if it is about one.
    pub fn request(&self) -> Option<ClusterRequest> {
        // Without one of the two the arguments are refused before.
        let (gbps, us) = (self.network_gbps?, self.network_us?);
        Some(ClusterRequest {
            nodes: Counts(self.nodes.clone()),
            network_gbps: gbps,
            network_us: us,
            backend: Some(ModelledBackend::from(self.backend).name().into()),
            shards: self.shards,
            streams: self.streams,
            statement_ms: self.statement_ms,
            task_us: self.task_us,
            task_shard_us: self.task_shard_us,
            shard_us: self.shard_us,
            fetch_us: self.fetch_us,
            shuffle: self.shuffle.clone(),
            shuffle_gbps: self.shuffle_gbps,
        })
    }
}

/// Prints the predictions for all machines.
pub fn run(request: &Request, cluster: &ClusterRequest) -> Result<(), Failure> {
    let (asked, predictions) = tierloom_predict::predict_cluster(request, cluster)?;
    for note in &asked.notes {
        note!("note: {note}");
    }
    for (index, prediction) in predictions.iter().enumerate() {
        if index > 0 {
            output::print("\n")?;
        }
        output::print(&text(&asked.name, prediction))?;
    }
    Ok(())
}

fn text(work: &str, p: &ClusterPrediction) -> String {
    let mut out = format!(
        "Modelled on clusters of {} ({}): {work}, {} workers a node, placement {}\n",
        p.machine.name, p.machine.title, p.workers, p.placement
    );
    if let Some(size) = p.sizes.first() {
        let (network, costs) = (&size.setup.network, &size.setup.costs);
        out += &format!(
            "Backend {}; network of {} GB/s a node and {} us a round trip; {} ms a statement; {}: {} us a task, {} us more for each shard, {} us a shard; {} us a result (given, or measured on processes of one machine)\n",
            size.setup.backend.name(),
            network.gbps,
            network.round_trip_us,
            costs.statement_ms,
            size.hands_out(),
            costs.task_us,
            costs.task_shard_us,
            costs.shard_us,
            costs.fetch_us
        );
        if size.setup.shuffle != ShuffleOn::Free {
            out += &format!("Rows that are passed on: {}\n", size.setup.shuffle);
        }
    }
    if let [size] = p.sizes.as_slice() {
        out += &format!("{}\n", queries(size));
    }
    out += &format!("{}\n", one_client(p));
    out += &format!("{}\n", many_clients(p));
    out += &format!(
        "Ranges: uncertainty of the profile, what checks miss, and costs that were not given at half and at twice their value.\nHow well rates on one machine are known: {}. No check covers several machines.\n",
        p.known
    );
    out
}

/// Where the time of each query goes.
fn queries(size: &ClusterSize) -> Table {
    let header = [
        "query",
        "one process ms",
        "cluster ms",
        "range ms",
        "fixed ms",
        "giving out ms",
        "node plan ms",
        "fetch ms",
        "final plan ms",
        "sent",
        "final plan on",
    ];
    let mut table = table(header, 1..10);
    for q in &size.queries {
        let ms = |ns: f64| number(ns / 1e6);
        table.add_row([
            q.work.name.clone(),
            ms(q.work.alone_ns),
            number(q.time_ms.answer),
            format!("{} to {}", number(q.time_ms.low), number(q.time_ms.high)),
            ms(q.times.fixed_ns),
            ms(q.giving_out_ns()),
            ms(q.node_plan_ns()),
            ms(q.times.fetch_ns),
            ms(q.times.last_ns),
            Bytes(q.sent_bytes().round() as u64).rounded(),
            q.last_on().into(),
        ]);
    }
    table
}

/// All queries once, one after the other.
fn one_client(p: &ClusterPrediction) -> Table {
    let header = [
        "nodes",
        "all queries ms",
        "range ms",
        "over one process",
        "tasks",
        "bytes of plans",
        "results sent",
        "bytes sent",
        "longest part",
    ];
    let mut table = table(header, 0..8);
    for size in &p.sizes {
        let (time, low, high) = size.round_ms();
        table.add_row([
            size.setup.nodes.to_string(),
            number(time),
            format!("{} to {}", number(low), number(high)),
            format!("{}x", number(size.alone_ms() / time)),
            size.round.tasks.to_string(),
            Bytes(size.round.task_bytes as u64).rounded(),
            size.round.fetches.to_string(),
            Bytes(size.round.moved_bytes as u64).rounded(),
            size.longest_part().into(),
        ]);
    }
    table
}

/// All queries once in each of several clients.
fn many_clients(p: &ClusterPrediction) -> Table {
    let hands_out = p.sizes.first().map_or("scheduler", ClusterSize::hands_out);
    let hands_out = format!("{hands_out} busy");
    let header = [
        "nodes",
        "clients",
        "statements/h",
        hands_out.as_str(),
        "nodes busy",
        "busiest link",
    ];
    let mut table = table(header, 0..6);
    for size in &p.sizes {
        let busy = size
            .busy()
            .map(|(_, share)| format!("{:.0}%", 100.0 * share));
        let [scheduler, nodes, link] = busy;
        table.add_row([
            size.setup.nodes.to_string(),
            size.streams.to_string(),
            format!("{:.0}", size.per_hour()),
            scheduler,
            nodes,
            link,
        ]);
    }
    table
}
