//! Statements on a cluster in time: a scheduler, nodes and links that do one thing after another.
//!
//! ```text
//!   client ── statement ──► scheduler ── a task to each node ──► node plan ──► report
//!                                     ── the final task ──► fetch from each node ──► final plan
//!   client ── a request to each node ──► node plan ──► results ──► final plan of the client
//!                                                 └──► to each node by key ──► its final plan
//! ```
//! The first is [`ModelledBackend::Ballista`], the others are [`ModelledBackend::Distributed`],
//! where the client does what the scheduler does otherwise.
//!
//! All times are given, so the same question has the same answer. The scheduler, every node and the
//! link into every node serve what comes in the order in which it comes.

use super::price::{LastOn, NodePart, StatementWork};
use super::setup::ClusterSetup;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When the parts of one statement ended, ns, and what it moved.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StatementTimes {
    /// Index of the query.
    pub query: usize,
    /// From its beginning to its answer.
    pub total_ns: f64,
    /// Of that, planning and answering, whatever the number of nodes.
    pub fixed_ns: f64,
    /// Of that, until the scheduler knew that all node plans had ended, or the client had all
    /// results that it gets itself.
    pub nodes_ns: f64,
    /// Of that, until all results were on the node of the final plan.
    pub fetch_ns: f64,
    /// Of that, the final plan and its report.
    pub last_ns: f64,
}

/// What a cluster did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClusterRun {
    /// All statements, in the order in which they ended.
    pub statements: Vec<StatementTimes>,
    /// From the first beginning to the last answer, ns.
    pub span_ns: f64,
    /// Time that the scheduler was busy, ns.
    pub scheduler_ns: f64,
    /// Time that nodes were busy, of all together, ns.
    pub nodes_ns: f64,
    /// Longest time that the link into one node, or into the client, was busy, ns.
    pub link_ns: f64,
    /// Tasks that the scheduler gave out.
    pub tasks: u64,
    /// Bytes of these tasks.
    pub task_bytes: f64,
    /// Results that went from one node to another, each asked for on its own.
    pub fetches: u64,
    /// Bytes of these results.
    pub moved_bytes: f64,
    /// Bytes that nodes sent or kept for themselves.
    pub made_bytes: f64,
}

/// A thing that serves one after the other.
#[derive(Clone, Copy, Default)]
struct Server {
    free_at: f64,
    busy: f64,
}

impl Server {
    /// When something is done that comes at `now` and takes `time`.
    fn serve(&mut self, now: f64, time: f64) -> f64 {
        self.free_at = self.free_at.max(now) + time;
        self.busy += time;
        self.free_at
    }
}

/// What happens at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Happening {
    /// A stream's next statement is with the scheduler.
    Submitted { stream: usize },
    /// A node plan is with its node.
    Given { stream: usize, node: usize },
    /// A node plan has ended, and the scheduler hears of it.
    Ended { stream: usize, part: usize },
    /// The scheduler has noted the end of a node plan.
    Noted { stream: usize },
    /// The final plan is with its node.
    Last { stream: usize },
    /// Its results are there.
    Fetched { stream: usize },
    /// A node has the rows of its share of the keys.
    Received { stream: usize, node: usize },
    /// A node has ended its share of the final plan, and the client hears of it.
    ShareEnded { stream: usize },
    /// The client has noted that.
    ShareNoted { stream: usize },
    /// The scheduler hears of its end.
    LastEnded { stream: usize },
    /// The client has the answer.
    Answered { stream: usize },
}

/// A happening at its time; those of the same time in the order in which they were foreseen.
#[derive(Debug, Clone, Copy)]
struct Event {
    at: f64,
    order: u64,
    what: Happening,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let at = self.at.total_cmp(&other.at);
        at.then(self.order.cmp(&other.order))
    }
}

/// One client, which asks one query after the other.
#[derive(Default)]
struct ClientTurn {
    /// Statements that are left, the next one last: the query, and whether this one has its work.
    left: Vec<(usize, bool)>,
    query: usize,
    has_work: bool,
    began: f64,
    /// Node plans whose end was not noted yet.
    waiting: usize,
    noted: f64,
    fetched: f64,
    /// When all nodes have their share of the final plan.
    shares_given: f64,
    /// The node of the first part; the others follow it.
    first_node: usize,
    last_node: usize,
}

impl ClientTurn {
    /// Time or bytes of the work, which one statement of a query has.
    fn work(&self, of_query: f64) -> f64 {
        if self.has_work { of_query } else { 0.0 }
    }
}

/// Runs `works` once in each of `streams` streams, each beginning with another query.
///
/// # Panics
/// Never for a setup that [`ClusterSetup::check`] accepts and works that were priced for it.
pub fn simulate(setup: &ClusterSetup, works: &[StatementWork], streams: u32) -> ClusterRun {
    let mut cluster = Simulated::new(setup, works, streams);
    while let Some(Reverse(event)) = cluster.events.pop() {
        cluster.happen(event);
    }
    let links = cluster.links.iter().chain([&cluster.client_link]);
    let longest = links.map(|l| l.busy);
    ClusterRun {
        scheduler_ns: cluster.scheduler.busy,
        nodes_ns: cluster.nodes.iter().map(|n| n.busy).sum(),
        link_ns: longest.fold(0.0, f64::max),
        ..cluster.run
    }
}

struct Simulated<'a> {
    setup: &'a ClusterSetup,
    works: &'a [StatementWork],
    /// Of each query, what each node that has a part does.
    parts: Vec<Vec<NodePart>>,
    events: BinaryHeap<Reverse<Event>>,
    order: u64,
    scheduler: Server,
    nodes: Vec<Server>,
    links: Vec<Server>,
    /// The link into the process of the clients.
    client_link: Server,
    /// What each node's files are read from.
    files: Vec<Server>,
    streams: Vec<ClientTurn>,
    statements: usize,
    run: ClusterRun,
}

impl<'a> Simulated<'a> {
    fn new(setup: &'a ClusterSetup, works: &'a [StatementWork], streams: u32) -> Self {
        let idle = vec![Server::default(); setup.nodes as usize];
        let mut cluster = Simulated {
            setup,
            works,
            parts: works.iter().map(parts_of).collect(),
            events: BinaryHeap::new(),
            order: 0,
            scheduler: Server::default(),
            client_link: Server::default(),
            links: idle.clone(),
            files: idle.clone(),
            nodes: idle,
            streams: Vec::new(),
            statements: 0,
            run: ClusterRun::default(),
        };
        for stream in 0..streams as usize {
            let queries = (0..works.len()).map(|i| (i + stream) % works.len());
            let statements = queries.flat_map(|q| statements_of(q, &works[q]));
            let mut left: Vec<(usize, bool)> = statements.collect();
            left.reverse();
            cluster.streams.push(ClientTurn {
                left,
                ..ClientTurn::default()
            });
            cluster.next_statement(stream, 0.0);
        }
        cluster
    }

    fn at(&mut self, at: f64, what: Happening) {
        let order = self.order;
        self.order += 1;
        self.events.push(Reverse(Event { at, order, what }));
    }

    /// The time of a message from one process to another.
    fn way_ns(&self) -> f64 {
        self.setup.network.round_trip_us * 1e3 / 2.0
    }

    fn next_statement(&mut self, stream: usize, now: f64) {
        let of = &mut self.streams[stream];
        let Some((query, has_work)) = of.left.pop() else {
            return;
        };
        (of.query, of.has_work, of.began) = (query, has_work, now);
        let fixed = self.setup.costs.statement_ms * 1e6;
        self.at(now + fixed, Happening::Submitted { stream });
    }

    fn happen(&mut self, event: Event) {
        let now = event.at;
        match event.what {
            Happening::Submitted { stream } => self.give_out(stream, now),
            Happening::Given { stream, node } => {
                let of = &self.streams[stream];
                let part = (node + self.nodes.len() - of.first_node) % self.nodes.len();
                let NodePart {
                    work_ns, write_ns, ..
                } = self.parts[of.query][part];
                let done = self.nodes[node].serve(now, of.work(work_ns + write_ns));
                self.at(done + self.way_ns(), Happening::Ended { stream, part });
            }
            Happening::Ended { stream, part } => self.end(stream, part, now),
            Happening::Noted { stream } => self.note(stream, now),
            Happening::Last { stream } => self.fetch(stream, now),
            Happening::Received { stream, node } => {
                let of = &mut self.streams[stream];
                of.fetched = of.fetched.max(now);
                let last_ns = of.work(self.works[of.query].last_ns);
                let beside_ns = self.setup.costs.stage_node_ms * 1e6;
                let done = self.nodes[node].serve(now, last_ns + beside_ns);
                self.at(done + self.way_ns(), Happening::ShareEnded { stream });
            }
            Happening::ShareEnded { stream } => {
                let noted = self.scheduler.serve(now, self.setup.task_ns(0) / 2.0);
                self.at(noted, Happening::ShareNoted { stream });
            }
            Happening::ShareNoted { stream } => {
                let of = &mut self.streams[stream];
                of.waiting -= 1;
                if of.waiting == 0 {
                    self.at(now, Happening::Answered { stream });
                }
            }
            Happening::Fetched { stream } => {
                let of = &mut self.streams[stream];
                of.fetched = now;
                let node = of.last_node;
                let last_ns = of.work(self.works[of.query].last_ns);
                let done = self.nodes[node].serve(now, last_ns);
                self.at(done + self.way_ns(), Happening::LastEnded { stream });
            }
            Happening::LastEnded { stream } => {
                let noted = self.scheduler.serve(now, self.setup.task_ns(0) / 2.0);
                self.at(noted, Happening::Answered { stream });
            }
            Happening::Answered { stream } => self.answer(stream, now),
        }
    }

    /// When a task that reads this number of shards is with its node.
    fn give(&mut self, now: f64, shards: u32) -> f64 {
        self.send_task(now, self.setup.task_ns(shards) / 2.0)
    }

    /// When a task that takes the scheduler or the client this time is with its node.
    fn send_task(&mut self, now: f64, task_ns: f64) -> f64 {
        let bytes = self.setup.task_bytes();
        self.run.tasks += 1;
        self.run.task_bytes += bytes;
        let time = task_ns + self.setup.transfer_ns(bytes);
        self.scheduler.serve(now, time) + self.way_ns()
    }

    fn give_out(&mut self, stream: usize, now: f64) {
        let of = &mut self.streams[stream];
        let (parts, nodes) = (self.parts[of.query].len(), self.nodes.len());
        // Final plans, and queries of one node, go around the nodes.
        let turn = self.statements % nodes;
        self.statements += 1;
        of.waiting = parts;
        (of.first_node, of.last_node) = match parts {
            1 => (turn, turn),
            _ => (0, turn % parts),
        };
        let (first, query) = (of.first_node, of.query);
        for part in 0..parts {
            let given = self.give(now, self.parts[query][part].shards);
            let node = (first + part) % nodes;
            self.at(given, Happening::Given { stream, node });
        }
        if self.works[query].last_on == Some(LastOn::AllNodes) {
            let task_ns = self.setup.costs.stage_task_us * 1e3;
            let given = (0..parts).map(|_| self.send_task(now, task_ns)).last();
            self.streams[stream].shares_given = given.unwrap_or(now);
        }
    }

    /// Notes the end of a node plan; a client that gets the results itself has them then.
    fn end(&mut self, stream: usize, part: usize, now: f64) {
        let of = &self.streams[stream];
        let NodePart {
            shards, sent_bytes, ..
        } = self.parts[of.query][part];
        let mut there = now;
        if self.works[of.query].last_on == Some(LastOn::Client) {
            let bytes = of.work(sent_bytes);
            there = self.client_link.serve(now, self.setup.transfer_ns(bytes));
            self.run.made_bytes += bytes;
            self.run.moved_bytes += bytes;
            self.run.fetches += u64::from(sent_bytes > 0.0);
        }
        let time = self.setup.task_ns(shards) / 2.0;
        let noted = self.scheduler.serve(there, time);
        self.at(noted, Happening::Noted { stream });
    }

    fn note(&mut self, stream: usize, now: f64) {
        let of = &mut self.streams[stream];
        of.waiting -= 1;
        if of.waiting > 0 {
            return;
        }
        (of.noted, of.fetched) = (now, now);
        let work = &self.works[of.query];
        match work.last_on {
            None => self.at(now, Happening::Answered { stream }),
            Some(LastOn::OneNode) => {
                let given = self.give(now, 0);
                self.at(given, Happening::Last { stream });
            }
            Some(LastOn::Client) => {
                let done = self.scheduler.serve(now, of.work(work.last_ns));
                self.at(done, Happening::Answered { stream });
            }
            Some(LastOn::AllNodes) => self.exchange(stream, now),
        }
    }

    /// Gets the rows of all nodes to the nodes that end them: of each, a share to every other one.
    fn exchange(&mut self, stream: usize, now: f64) {
        let of = &mut self.streams[stream];
        let parts = &self.parts[of.query];
        let (first, count) = (of.first_node, parts.len());
        of.waiting = count;
        let begin = now.max(of.shares_given) + self.setup.network.round_trip_us * 1e3;
        let work = of.work(1.0);
        let made: f64 = parts.iter().map(|part| part.sent_bytes * work).sum();
        let others = count - 1;
        let each: Vec<f64> = parts
            .iter()
            .map(|part| (made - part.sent_bytes * work) / count as f64)
            .collect();
        self.run.made_bytes += made;
        self.run.moved_bytes += each.iter().sum::<f64>();
        self.run.fetches += (count * others) as u64;
        for (part, bytes) in each.into_iter().enumerate() {
            let node = (first + part) % self.nodes.len();
            let connections = others as f64 * self.setup.costs.fetch_us * 1e3;
            let time = self.setup.transfer_ns(bytes) + connections;
            let there = self.links[node].serve(begin, time);
            self.at(there, Happening::Received { stream, node });
        }
    }

    /// Gets the results of all nodes to the node of the final plan.
    fn fetch(&mut self, stream: usize, now: f64) {
        let of = &self.streams[stream];
        let (last, work) = (of.last_node, of.work(1.0));
        let (first, count) = (of.first_node, self.nodes.len());
        let own = (last + count - first) % count;
        let (costs, round_trip) = (self.setup.costs, 2.0 * self.way_ns());
        // Times at which fetches end, as bits: times are not negative, so their order is that of
        // the bits.
        let mut ends: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
        let mut done = now;
        for (index, part) in self.parts[of.query].iter().enumerate() {
            self.run.made_bytes += part.sent_bytes * work;
            let per_shard = work / f64::from(part.shards.max(1));
            let (bytes, read_ns) = (part.sent_bytes * per_shard, part.read_ns * per_shard);
            let source = (first + index) % count;
            for _ in 0..part.shards {
                // A node's own results are files of its own.
                let (moved, wait) = match index == own {
                    true => (0.0, 0.0),
                    // One round trip to connect, one to ask.
                    false => (bytes, 2.0 * round_trip),
                };
                let free = match ends.len() < costs.fetches_at_once as usize {
                    true => now,
                    false => ends.pop().map_or(now, |Reverse(end)| f64::from_bits(end)),
                };
                let time = self.setup.transfer_ns(moved) + costs.fetch_us * 1e3;
                // Rows are sent while the next ones are read.
                let sent = self.links[last].serve(free + wait, time);
                let there = sent.max(self.files[source].serve(free + wait, read_ns));
                ends.push(Reverse(there.to_bits()));
                self.run.fetches += u64::from(index != own);
                self.run.moved_bytes += moved;
                done = done.max(there);
            }
        }
        self.at(done, Happening::Fetched { stream });
    }

    fn answer(&mut self, stream: usize, now: f64) {
        let of = &self.streams[stream];
        let fixed_ns = self.setup.costs.statement_ms * 1e6;
        self.run.statements.push(StatementTimes {
            query: of.query,
            total_ns: now - of.began,
            fixed_ns,
            nodes_ns: of.noted - of.began - fixed_ns,
            fetch_ns: of.fetched - of.noted,
            last_ns: now - of.fetched,
        });
        self.run.span_ns = self.run.span_ns.max(now);
        self.next_statement(stream, now);
    }
}

/// What each node that has a part does.
fn parts_of(work: &StatementWork) -> Vec<NodePart> {
    let parts = work.parts.iter();
    let all = parts.flat_map(|p| std::iter::repeat_n(p.clone(), p.nodes as usize));
    all.collect()
}

/// The statements of a query, with whether each has the work.
fn statements_of(
    query: usize,
    work: &StatementWork,
) -> impl Iterator<Item = (usize, bool)> + use<> {
    let count = work.statements.max(1);
    (1..=count).map(move |n| (query, n == count))
}
