//! Risk: a generation that cannot be stopped, or that leaves a partial file under its final name.

use std::sync::atomic::{AtomicU64, Ordering};
use tierloom_workloads::ssb::{
    Lineorder, LineorderColumns, MAX_SCALE_FACTOR, SsbConfig, dimension, tables, write_csv,
};
use tierloom_workloads::{Progress, Silent, WorkloadError};

/// Counts rows and cancels once `limit` rows are reported.
struct Until {
    rows: AtomicU64,
    limit: u64,
}

impl Until {
    fn new(limit: u64) -> Self {
        Self {
            rows: AtomicU64::new(0),
            limit,
        }
    }

    fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

impl Progress for Until {
    fn advance(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    fn cancelled(&self) -> bool {
        self.rows() >= self.limit
    }
}

#[test]
fn cancelled_fill_stops_between_chunks_and_says_so() {
    let plan = Lineorder::plan(&SsbConfig::new(0.1, 1).unwrap()).unwrap();
    let progress = Until::new(20_000);
    assert!(matches!(
        plan.to_columns(&progress),
        Err(WorkloadError::Cancelled)
    ));
    // Each thread may finish the chunk that it has begun.
    let overshoot = (rayon::current_num_threads() as u64 + 1) * 2048 * 7;
    assert!(progress.rows() < 20_000 + overshoot, "{}", progress.rows());
}

#[test]
fn progress_hears_of_every_row_once() {
    let plan = Lineorder::plan(&SsbConfig::new(0.03, 1).unwrap()).unwrap();
    let progress = Until::new(u64::MAX);
    plan.to_columns(&progress).unwrap();
    assert_eq!(progress.rows(), plan.rows() as u64);
}

#[test]
fn columns_of_the_wrong_shape_are_refused_before_anything_is_written() {
    let plan = Lineorder::plan(&SsbConfig::new(0.01, 1).unwrap()).unwrap();
    let rows = plan.rows();
    let attempt = |int32_columns: usize, dict8_columns: usize, short: Option<usize>| {
        let mut int32 = vec![vec![-1; rows]; int32_columns];
        let mut dict8 = vec![vec![255; rows]; dict8_columns];
        if let Some(index) = short {
            int32[index].pop();
        }
        let mut columns = LineorderColumns {
            int32: int32.iter_mut().map(Vec::as_mut_slice).collect(),
            dict8: dict8.iter_mut().map(Vec::as_mut_slice).collect(),
        };
        let result = plan.fill(&mut columns, &Silent);
        (
            result.map_err(|error| error.to_string()),
            int32.iter().flatten().all(|&value| value == -1),
        )
    };
    for (shape, expected) in [
        (
            (14, 2, None),
            "the number of int32 columns is 14, the table needs 15",
        ),
        (
            (15, 3, None),
            "the number of dict8 columns is 3, the table needs 2",
        ),
        ((15, 2, Some(9)), "the length of int32 column 9"),
    ] {
        let (result, untouched) = attempt(shape.0, shape.1, shape.2);
        assert!(
            result.unwrap_err().contains(expected) && untouched,
            "{expected}"
        );
    }
    assert_eq!(attempt(15, 2, None).0, Ok(()));
}

#[test]
fn configurations_made_by_hand_are_checked_where_they_are_used() {
    for scale_factor in [0.0, f64::NAN, 2.0 * MAX_SCALE_FACTOR] {
        let config = SsbConfig {
            scale_factor,
            seed: 1,
        };
        assert!(matches!(
            Lineorder::plan(&config),
            Err(WorkloadError::ScaleFactor { .. })
        ));
        assert!(matches!(
            dimension(&config, "part"),
            Err(WorkloadError::ScaleFactor { .. })
        ));
    }
    let config = SsbConfig::new(0.01, 1).unwrap();
    assert!(
        dimension(&config, "lineorder")
            .unwrap_err()
            .to_string()
            .contains("customer, supplier, part, date")
    );
}

#[test]
fn csv_files_are_complete_and_readable() {
    let folder = tempfile::tempdir().unwrap();
    let config = SsbConfig::new(0.01, 1).unwrap();
    let progress = Until::new(u64::MAX);
    let files = write_csv(&config, &folder.path().join("new"), &progress).unwrap();
    assert_eq!(files.len(), 5);
    assert_eq!(
        progress.rows(),
        files.iter().map(|file| file.rows).sum::<u64>()
    );
    for spec in tables() {
        let file = files.iter().find(|file| file.table == spec.name).unwrap();
        assert_eq!(
            file.size_bytes,
            std::fs::metadata(&file.path).unwrap().len()
        );
        let mut reader = csv::Reader::from_path(&file.path).unwrap();
        let header: Vec<String> = reader
            .headers()
            .unwrap()
            .iter()
            .map(str::to_owned)
            .collect();
        assert_eq!(
            header,
            spec.columns
                .iter()
                .map(|column| column.name)
                .collect::<Vec<_>>()
        );
        // A record of another length is an error for this reader.
        let records: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
        assert_eq!(records.len() as u64, file.rows);
    }
    let date = std::fs::read_to_string(folder.path().join("new/date.csv")).unwrap();
    assert_eq!(
        date.lines().nth(60),
        Some(
            "19920229,\"February 29, 1992\",Saturday,February,1992,199202,Feb1992,7,29,60,2,9,Winter,1,1,0,0"
        )
    );
}

#[test]
fn cancelled_or_failed_csv_leaves_no_partial_file() {
    let folder = tempfile::tempdir().unwrap();
    let config = SsbConfig::new(0.01, 1).unwrap();
    // Enough for the four dimensions (4,876 rows) but not for lineorder.
    let result = write_csv(&config, folder.path(), &Until::new(4_876));
    assert!(matches!(result, Err(WorkloadError::Cancelled)));
    let mut left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(
        left,
        ["customer.csv", "date.csv", "part.csv", "supplier.csv"]
    );

    let message = write_csv(&config, &folder.path().join("date.csv"), &Silent)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("date.csv") && message.contains("cannot create"),
        "{message}"
    );
}
