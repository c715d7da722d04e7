//! The command in a build with clusters.
//!
//! Everything that can be wrong in the arguments is found before a process starts or a table is
//! loaded.

mod access;
mod status;

use super::Args;
use super::args::{
    ClusterBackend, ClusterCommand, ClusterLoadArgs, ClusterStatusArgs, ExecutorArgs,
    SchedulerArgs, SchedulerUrl, ServedCluster, SqlArgs, TokenArgs,
};
use crate::commands::sql;
use crate::failure::Failure;
use crate::{output, stop};
use std::path::Path;
use std::sync::Arc;
use tierloom_cluster::{
    Access, Answer, Backend, ClientOptions, ClusterClient, ClusterError, ClusterTables,
    ExecutorOptions, RowSource, SchedulerOptions, ShufflePlace, TableRequest, benchmark_tables,
    print_log, run_executor, run_scheduler,
};
use tierloom_engine::arrow::array::RecordBatch;
use tierloom_engine::arrow::util::display::FormatOptions;
use tierloom_engine::arrow::util::pretty::pretty_format_batches_with_options;
use tierloom_memory::MemoryFolder;
use tierloom_placement::Policy;
use tierloom_sql::{BatchWriter, Elsewhere, Format, WriteOptions};
use tierloom_topology::Topology;

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::Input(text) => Failure::BadInput(text),
            ClusterError::Failed(text) => Failure::Runtime(text),
            ClusterError::Interrupted => Failure::Interrupted("the statement was stopped".into()),
        }
    }
}

impl From<ClusterBackend> for Backend {
    fn from(backend: ClusterBackend) -> Self {
        match backend {
            ClusterBackend::Ballista => Backend::Ballista,
            ClusterBackend::Distributed => Backend::Distributed,
        }
    }
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        ClusterCommand::Scheduler(args) => scheduler(args),
        ClusterCommand::Executor(args) => executor(args),
        ClusterCommand::Load(args) => load(args),
        ClusterCommand::Sql(args) => query(args),
        ClusterCommand::Status(args) => status(args),
    }
}

fn scheduler(args: &SchedulerArgs) -> Result<(), Failure> {
    if args.verbose {
        print_log();
    }
    let options = SchedulerOptions {
        listen: args.listen,
        external_host: args.external_host.clone(),
        tables: args.tables.clone(),
        guard: access::guard(&args.token, &args.certificate, true)?,
    };
    let ready = |url: &str| {
        // If nobody reads it, that is no harm.
        let _ = output::print(&format!("scheduler {url}\n"));
    };
    Ok(run_scheduler(&options, ready, &stop::requested)?)
}

fn executor(args: &ExecutorArgs) -> Result<(), Failure> {
    let name = args.name.trim();
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(fits) {
        let expected = "expected letters, digits, '-', '_' and '.'";
        return Err(Failure::input(format!(
            "--name {:?}: {expected}",
            args.name
        )));
    }
    let options = sql::plan::session_options(&args.session)?;
    let Policy::Uniform(spec) = &options.placement else {
        return Err(Failure::input(format!(
            "--placement {}: an executor takes a tier, a node or weights",
            options.placement
        )));
    };
    let placement = spec.resolve(&options.topology).map_err(Failure::input)?;
    let shuffle = shuffle_of(args, &options.topology)?;
    sql::quiet_workers();
    if args.verbose {
        print_log();
    }
    let options = ExecutorOptions {
        scheduler: args.url.scheduler.clone(),
        name: name.into(),
        access: access_of(&args.url)?,
        guard: access::guard(&args.url.token, &args.certificate, false)?,
        listen: args.listen,
        external_host: args.external_host.clone(),
        threads: options.engine.threads,
        shuffle,
        topology: options.topology,
        backend: options.backend,
        page_size: options.page_size,
        placement,
    };
    let line = format!("executor {name}\n");
    let ready = || {
        let _ = output::print(&line);
    };
    Ok(run_executor(options, ready, &stop::requested)?)
}

/// Where an executor on this machine writes what its tasks pass on.
fn shuffle_of(args: &ExecutorArgs, topology: &Topology) -> Result<ShufflePlace, Failure> {
    let Some(spec) = &args.shuffle else {
        let folder = args.work_dir.clone();
        return Ok(folder.map_or(ShufflePlace::Temporary, ShufflePlace::Folder));
    };
    let bad = |e: &dyn std::fmt::Display| Failure::input(format!("--shuffle {spec}: {e}"));
    let placement = spec.resolve(topology).map_err(|e| bad(&e))?;
    let size = args.shuffle_size.map(|size| size.0);
    let folder = MemoryFolder::new(&placement, size, topology).map_err(|e| bad(&e))?;
    Ok(ShufflePlace::Memory(folder))
}

/// The tables of the cluster at `url`, for the sessions of a server.
///
/// # Errors
/// Bad input: a URL, a token or a certificate that cannot be used. A failure if the scheduler does
/// not answer.
pub fn tables(url: &str, args: &ServedCluster) -> Result<Arc<dyn Elsewhere>, Failure> {
    let token = TokenArgs {
        token_file: args.token_file.clone(),
        allow_plain: args.allow_plain,
    };
    let options = ClientOptions {
        access: access::access(url, &token, args.tls_ca.as_deref())?,
        backend: args.backend.into(),
        ..ClientOptions::default()
    };
    Ok(Arc::new(ClusterTables::connect(url, &options)?))
}

fn access_of(url: &SchedulerUrl) -> Result<Access, Failure> {
    access::access(&url.scheduler, &url.token, url.tls_ca.as_deref())
}

fn client(url: &SchedulerUrl, options: ClientOptions) -> Result<ClusterClient, Failure> {
    let options = ClientOptions {
        access: access_of(url)?,
        ..options
    };
    Ok(ClusterClient::with_options(&url.scheduler, options)?)
}

fn load(args: &ClusterLoadArgs) -> Result<(), Failure> {
    let client = client(&args.url, ClientOptions::default())?;
    let tables = requests(args)?;
    let names: Vec<String> = tables.iter().map(|table| table.name.clone()).collect();
    let map = client.load(tables, &stop::requested)?;
    for name in names {
        let rows = map.usable(&name).map_err(Failure::runtime)?.1;
        note!("table {name}: {rows} rows, {}", status::layout(&map, &name));
    }
    Ok(())
}

fn requests(args: &ClusterLoadArgs) -> Result<Vec<TableRequest>, Failure> {
    if ["ssb", "tpch", "tpcds"].contains(&args.what.as_str()) {
        if args.by.is_some() || args.name.is_some() || args.everywhere {
            return Err(Failure::input(format!(
                "{}: the tables of a benchmark have names and layouts of their own; leave out \
                 --name, --by and --everywhere",
                args.what
            )));
        }
        return Ok(benchmark_tables(
            &args.what,
            args.sf,
            args.shards,
            args.replicas,
        )?);
    }
    let path = Path::new(&args.what);
    let stem = path.file_stem().map(|stem| stem.to_string_lossy());
    let name = args.name.clone().or_else(|| stem.map(Into::into));
    Ok(vec![TableRequest {
        name: name.unwrap_or_default().to_ascii_lowercase(),
        source: RowSource::parquet(path)?,
        by: args.by.clone(),
        shards: args.shards,
        replicas: args.replicas,
    }])
}

fn query(args: &SqlArgs) -> Result<(), Failure> {
    let format: Option<Format> = match args.format.as_str() {
        "table" => None,
        "csv" | "json" | "jsonl" => Some(args.format.parse().map_err(Failure::input)?),
        other => {
            return Err(Failure::input(format!(
                "--format {other}: expected table, csv, json or jsonl"
            )));
        }
    };
    sql::quiet_workers();
    let options = ClientOptions {
        direct_bytes: usize::try_from(args.direct.0).unwrap_or(usize::MAX),
        backend: args.backend.into(),
        ..ClientOptions::default()
    };
    let client = client(&args.url, options)?;
    for query in &args.queries {
        if args.explain {
            output::print(&client.explain(query, &stop::requested)?)?;
            continue;
        }
        let answer = client.run(query, &stop::requested)?;
        match format {
            None => output::print(&table(&answer)?)?,
            Some(format) => output::print_bytes(&rows(&answer, format)?)?,
        }
        if args.timing {
            note!("{:.1} ms", answer.time.as_secs_f64() * 1e3);
        }
    }
    Ok(())
}

fn table(answer: &Answer) -> Result<String, Failure> {
    let options = FormatOptions::default()
        .with_null("NULL")
        .with_display_error(false);
    let empty = [RecordBatch::new_empty(answer.schema.clone())];
    let batches = match answer.batches.is_empty() {
        true => &empty[..],
        false => &answer.batches,
    };
    let text = pretty_format_batches_with_options(batches, &options);
    Ok(format!("{}\n", text.map_err(Failure::runtime)?))
}

fn rows(answer: &Answer, format: Format) -> Result<Vec<u8>, Failure> {
    let failed = |e| sql::open::failure(e, None);
    let options = WriteOptions::new(format, false);
    let mut writer = BatchWriter::new(Vec::new(), &answer.schema, options).map_err(failed)?;
    for batch in &answer.batches {
        writer.write(batch).map_err(failed)?;
    }
    writer.finish().map_err(failed)
}

fn status(args: &ClusterStatusArgs) -> Result<(), Failure> {
    let map = client(&args.url, ClientOptions::default())?.map()?;
    match args.json {
        true => output::print_json(&map),
        false => output::print(&status::described(&map)),
    }
}
