//! dbt: a project of seeds, models, tests and documentation, in `tests/dbt`.

use super::support::{Server, printed};
use std::path::Path;

/// Runs the commands in a copy of the project, which dbt writes into.
const PROGRAM: &str = r#"
os.environ["TIERLOOM_PORT"] = str(PORT)
folder = tempfile.TemporaryDirectory()
shutil.copytree(PROJECT, folder.name, dirs_exist_ok=True)
os.chdir(folder.name)
connection = psycopg2.connect(f"host=127.0.0.1 port={PORT} user=tester dbname=tierloom")
connection.autocommit = True

def run(*words):
    folders = [] if words[0] == "debug" else ["--target-path", "made"]
    invoked = dbt.cli.main.dbtRunner().invoke(
        ["--quiet", "--no-use-colors", "--log-path", "logs", *words, *folders,
            "--project-dir", ".", "--profiles-dir", "."])
    results = getattr(invoked.result, "results", None) or []
    assert invoked.success, (words, invoked.exception, [(r.status, r.message) for r in results])
    return len(results)

def rows(query):
    with connection.cursor() as cursor:
        cursor.execute(query)
        return [tuple(map(str, row)) for row in cursor.fetchall()]

run("debug")
assert [run("seed"), run("run"), run("snapshot"), run("test")] == [1, 5, 1, 5]
found = rows("SELECT region, revenue, orders FROM shop.revenue ORDER BY region")
assert found == [("AFRICA", "31.00", "1"), ("ASIA", "5.25", "1"), ("EUROPE", "27.25", "2")], found
assert rows("SELECT count(*) FROM shop.large") == [("3",)]
run("docs", "generate")
with open("made/catalog.json") as file:
    nodes = json.load(file)["nodes"]
assert nodes["model.shop.large"]["metadata"]["type"] == "VIEW", nodes
assert nodes["seed.shop.orders"]["columns"]["price"]["type"] == "numeric(10,2)", nodes
assert nodes["model.shop.revenue"]["columns"]["orders"]["index"] == 3, nodes

# Rows that came since are added, once; the table with a key has one row of each.
with open("seeds/orders.csv") as file:
    seed = file.read()
with open("seeds/orders.csv", "w") as file:
    file.write(seed.replace("5.25", "6.00") + "5,ASIA,9.00,2024-01-05\n")
assert [run("seed"), run("run"), run("run"), run("snapshot"), run("test")] == [1, 5, 5, 1, 5]
assert rows("SELECT id FROM shop.seen ORDER BY id") == [(n,) for n in "12345"]
found = rows("SELECT region, day, orders FROM shop.latest ORDER BY region")
assert found == [("AFRICA", "2024-01-04", "1"), ("ASIA", "2024-01-05", "2"),
    ("EUROPE", "2024-01-03", "2")], found
assert rows("SELECT count(*) FROM shop.large") == [("4",)]
found = rows("SELECT id, price, dbt_valid_to IS NULL FROM shop.prices WHERE id IN (1, 2, 5)"
    " ORDER BY id, price")
assert found == [("1", "19.50", "True"), ("2", "5.25", "False"), ("2", "6.00", "True"),
    ("5", "9.00", "True")], found

assert [run("seed", "--full-refresh"), run("build", "--full-refresh")] == [1, 12]
# Neither what was put aside nor what was temporary is left.
for _ in range(100):
    left = rows("SELECT table_name FROM information_schema.tables WHERE table_name LIKE '%dbt%'")
    if not left:
        break
    time.sleep(0.1)
assert not left, left
print("done")
"#;

#[test]
fn a_project_of_dbt_is_made_added_to_tested_and_documented() {
    let server = Server::start();
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dbt");
    let modules = [
        "dbt.cli.main",
        "dbt.adapters.postgres",
        "psycopg2",
        "os",
        "json",
        "shutil",
        "tempfile",
        "time",
    ];
    let program = format!("PROJECT = {:?}{PROGRAM}", project.display().to_string());
    let Some(output) = server.python(&modules, &program) else {
        return;
    };
    assert!(printed(&output).ends_with("done\n"));
}
