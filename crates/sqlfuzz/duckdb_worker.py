"""Answers statements with DuckDB: one request a line on stdin, one answer a line on stdout.

{"do": "open"}                             a new database without tables
{"do": "load", "name": t, "path": p}       the Arrow stream p as the table t
{"do": "run", "sql": s, "path": p}         runs s; its rows, if it has some, as an Arrow stream in p
"""

import json
import sys
import warnings

import duckdb
import pyarrow as pa
import pyarrow.ipc

warnings.simplefilter("ignore")


def opened():
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def load(connection, name, path):
    with pa.OSFile(path, "rb") as file:
        loaded = pa.ipc.open_stream(file).read_all()
    connection.register("loaded_now", loaded)
    connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM loaded_now")
    connection.unregister("loaded_now")
    return {}


def run(connection, sql, path):
    cursor = connection.execute(sql)
    if sql.split(None, 1)[0].upper() in ("CREATE", "DROP"):
        return {}
    answer = cursor.to_arrow_table()
    with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, answer.schema) as writer:
        writer.write_table(answer)
    return {"rows": answer.num_rows}


def main():
    connection = opened()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "open":
                try:
                    connection.close()
                except duckdb.Error:
                    pass  # Closing may report the error of the last statement again.
                connection = opened()
                answer = {}
            elif request["do"] == "load":
                answer = load(connection, request["name"], request["path"])
            else:
                answer = run(connection, request["sql"], request["path"])
        except Exception as error:  # Whatever DuckDB says is an answer.
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
