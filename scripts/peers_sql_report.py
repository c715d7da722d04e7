"""What peers_sql.py concludes from its samples: ratios of rounds, tables, verdicts. Requires no
engine.

A sample is the result of one process of one engine in one round:
{"engine", "round", "queries": {"q1.1": {"text_ms": [...], "prepared_ms": [...]}}, ...}.
"""

import hashlib
import math
import statistics

NAMES = {
    "tierloom": "Tierloom",
    "duckdb": "DuckDB",
    "datafusion": "DataFusion",
    "polars": "Polars",
    "chdb": "chDB",
    "chdb-mergetree": "chDB MergeTree",
    "baseline": "DataFusion in Tierloom",
}
LINE_BYTES = 64


# ---- Answers -------------------------------------------------------------------------------------


def digest(answer):
    """The digest that Tierloom's records have for an answer: the first 16 hex digits of the SHA-256
    of its text.
    """
    return hashlib.sha256(answer.encode()).hexdigest()[:16]


def wrong_answers(samples, golden):
    """Sentences about answers that are not the stored one, or, where none is stored, not the one of
    most engines.

    `golden` has the stored text by query. An answer without rows may lack its header.
    """
    found = []
    for query in queries_of(samples):
        given = [(sample, sample["queries"][query]) for sample in samples if query in sample["queries"]]
        if query in golden:
            expected = (len(golden[query].splitlines()) - 1, digest(golden[query]))
            source = "the stored answer"
        else:
            keys = [(entry["rows"], entry["digest"]) for _, entry in given]
            expected, source = max(keys, key=keys.count), "most others"
        for sample, entry in given:
            same = (entry["rows"], entry["digest"]) == expected or entry["rows"] == expected[0] == 0
            if not same:
                found.append(
                    f"{query} of {NAMES[sample['engine']]} in round {sample['round']} differs from {source}: {entry['rows']} rows, not {expected[0]}"
                    if entry["rows"] != expected[0]
                    else f"{query} of {NAMES[sample['engine']]} in round {sample['round']} differs from {source} ({expected[0]} rows both)"
                )
    return found


# ---- Times ---------------------------------------------------------------------------------------


def queries_of(samples):
    """All queries that some engine ran, in order."""
    return sorted({query for sample in samples for query in sample["queries"]})


def times(samples, engine, query, kind):
    """Round to times in ms."""
    chosen = [sample for sample in samples if sample["engine"] == engine]
    found = {sample["round"]: sample["queries"].get(query, {}).get(kind) for sample in chosen}
    return {number: values for number, values in found.items() if values}


def spread(rounds):
    """Best, median and worst of all rounds together; None without times."""
    values = [value for values in rounds.values() for value in values]
    if not values:
        return None
    return {"best": min(values), "median": statistics.median(values), "worst": max(values), "samples": len(values)}


def ratio(ours, theirs):
    """How many times faster Tierloom is: the median over the rounds that both have of the ratio of
    the medians; None without such rounds.
    """
    both = sorted(ours.keys() & theirs.keys())
    ratios = [statistics.median(theirs[number]) / statistics.median(ours[number]) for number in both]
    return statistics.median(ratios) if ratios else None


def geometric_mean(values):
    """Of positive numbers; None without any."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def compare(samples, engines, ours_kind, kind_of):
    """Times of each engine and Tierloom's ratio to each, for every query and as a geometric mean.

    `engines` are the others; `kind_of(engine)` says which times of an engine stand against our `ours_kind`.
    """
    rows = []
    for query in queries_of(samples):
        ours = times(samples, "tierloom", query, ours_kind)
        row = {"query": query, "tierloom": spread(ours), "others": {}}
        for engine in engines:
            theirs = times(samples, engine, query, kind_of(engine))
            if theirs:
                row["others"][engine] = {**spread(theirs), "ratio": ratio(ours, theirs)}
        rows.append(row)
    return {"rows": rows, "means": {engine: mean_of(samples, rows, engine, ours_kind, kind_of(engine)) for engine in ["tierloom", *engines]}}


def mean_of(samples, rows, engine, ours_kind, kind):
    """Geometric means over all queries: of the medians, of the ratios, and of the ratios in each
    round (to show their spread).
    """
    cells = [row["tierloom"] if engine == "tierloom" else row["others"].get(engine) for row in rows]
    if not cells or any(cell is None for cell in cells):
        return None
    mean = {"median": geometric_mean([cell["median"] for cell in cells])}
    if engine == "tierloom" or any(cell["ratio"] is None for cell in cells):
        return mean
    mean["ratio"] = geometric_mean([cell["ratio"] for cell in cells])
    per_round = {}
    for row in rows:
        ours, theirs = (times(samples, name, row["query"], k) for name, k in (("tierloom", ours_kind), (engine, kind)))
        for number in ours.keys() & theirs.keys():
            per_round.setdefault(number, []).append(statistics.median(theirs[number]) / statistics.median(ours[number]))
    whole = [geometric_mean(ratios) for ratios in per_round.values() if len(ratios) == len(rows)]
    mean["round_min"], mean["round_max"] = (min(whole), max(whole)) if whole else (None, None)
    return mean


# ---- Bandwidth and memory ------------------------------------------------------------------------


def column_bytes(phases):
    """Bytes of columns that the phases of a record read, by column: 64 for each line that was
    touched.
    """
    found = {}
    for phase in phases:
        for access in phase["accesses"]:
            if access["class"] == "column":
                size = phase["tuples"] * access["lines_per_tuple"] * LINE_BYTES
                found[access["structure"]] = found.get(access["structure"], 0.0) + size
    return found


def bandwidth(samples, query="q1.1"):
    """What `query` reads per second against what the machine reads, round by round; None if the
    records do not have it.
    """
    shares, rates, reads, touched = [], [], [], None
    for sample in samples:
        if sample["engine"] != "tierloom" or query not in sample["queries"]:
            continue
        entry = sample["queries"][query]
        size = sum(entry.get("column_bytes", {}).values())
        if not size:
            continue
        touched = entry["column_bytes"]
        rates.append(size / statistics.median(entry["prepared_ms"]) / 1e6)
        if sample.get("read_gbps"):
            reads.append(sample["read_gbps"])
            shares.append(rates[-1] / reads[-1])
    if not rates:
        return None
    return {
        "query": query,
        "bytes": sum(touched.values()),
        "columns": touched,
        "gbps": statistics.median(rates),
        "read_gbps": statistics.median(reads) if reads else None,
        "share": statistics.median(shares) if shares else None,
    }


def memory(samples, plain_bytes):
    """Tierloom's tables against plain Arrow; None if one of the two is not known."""
    ours = [sample["column_bytes"] for sample in samples if sample["engine"] == "tierloom" and sample.get("column_bytes")]
    if not ours or not plain_bytes:
        return None
    return {"ours_bytes": ours[-1], "plain_bytes": plain_bytes, "share": ours[-1] / plain_bytes}


# ---- Text ----------------------------------------------------------------------------------------


def ms(value):
    """A time with three significant digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(comparison, engines):
    """Medians and ratios as a Markdown table."""
    lines = ["| query | Tierloom, ms | " + " | ".join(f"{NAMES[engine]}, ms (ratio)" for engine in engines) + " |"]
    lines.append("|---" * (len(engines) + 2) + "|")

    def cell(entry):
        if entry is None:
            return "-"
        factor = entry.get("ratio")
        return ms(entry["median"]) + (f" ({factor:.2f}x)" if factor else "")

    for row in comparison["rows"]:
        cells = [cell(row["tierloom"]), *(cell(row["others"].get(engine)) for engine in engines)]
        lines.append(f"| Q{row['query'][1:]} | " + " | ".join(cells) + " |")
    means = [cell(comparison["means"][engine]) for engine in ["tierloom", *engines]]
    lines.append("| **geometric mean** | " + " | ".join(f"**{mean}**" for mean in means) + " |")
    return "\n".join(lines)


def spread_table(comparison, engines):
    """Best, median and worst as a Markdown table."""
    lines = ["| query | " + " | ".join(NAMES[engine] for engine in ["tierloom", *engines]) + " |"]
    lines.append("|---" * (len(engines) + 2) + "|")

    def cell(entry):
        return "-" if entry is None else f"{ms(entry['best'])} / {ms(entry['median'])} / {ms(entry['worst'])}"

    for row in comparison["rows"]:
        cells = [cell(row["tierloom"]), *(cell(row["others"].get(engine)) for engine in engines)]
        lines.append(f"| Q{row['query'][1:]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def slower(comparison, engines):
    """Queries in which an engine is faster than Tierloom, by engine, with the ratio."""
    found = []
    for engine in engines:
        factors = [(row["query"], row["others"].get(engine, {}).get("ratio")) for row in comparison["rows"]]
        names = [f"Q{query[1:]} ({1 / factor:.2f}x)" for query, factor in factors if factor is not None and factor < 1]
        found += [(len(names), f"{NAMES[engine]} {', '.join(names)}")] if names else []
    count = sum(number for number, _ in found)
    if not count:
        return "no query"
    return f"{count} {'query' if count == 1 else 'queries'}: " + "; ".join(text for _, text in found)


def verdicts(comparison, engines):
    """One line per engine, and one about the queries that are slower."""
    lines = []
    for engine in engines:
        mean = comparison["means"][engine]
        if not mean or "ratio" not in mean:
            lines.append(f"- geometric mean against {NAMES[engine]}: none, some query has no time")
            continue
        apart = f" (rounds: {mean['round_min']:.2f} to {mean['round_max']:.2f})" if mean["round_min"] != mean["round_max"] else ""
        factor = mean["ratio"]
        word = f"{factor:.2f}x faster than" if factor >= 1 else f"{1 / factor:.2f}x slower than"
        lines.append(f"- geometric mean {word} {NAMES[engine]}{apart}")
    lines.append("- slower than a peer in: " + slower(comparison, engines))
    return lines


def bandwidth_lines(result, cache_bytes):
    """The result of `bandwidth` as text."""
    if result is None:
        return ["- bandwidth of Q1.1: the records have no phases for it"]
    name = f"Q{result['query'][1:]}"
    columns = ", ".join(f"{column} {size / 1e6:.1f} MB" for column, size in sorted(result["columns"].items(), key=lambda item: -item[1]))
    lines = [f"- {name} touches {result['bytes'] / 1e6:.1f} MB of columns ({columns}): {result['gbps']:.1f} GB/s"]
    if result["share"] is not None:
        lines[0] += f", {100 * result['share']:.0f}% of the {result['read_gbps']:.1f} GB/s that `tierloom bench` reads in the same round"
    if cache_bytes and result["bytes"] < 4 * cache_bytes:
        lines.append(f"- with a cache of {cache_bytes / 1e6:.0f} MB a part of these bytes comes from the cache: the share says little")
    return lines


def memory_line(result):
    """The result of `memory` as text."""
    if result is None:
        return "- memory of the tables: not known"
    ours, plain = result["ours_bytes"] / 1e6, result["plain_bytes"] / 1e6
    return f"- loaded tables: {ours:.0f} MB of columns, {100 * result['share']:.0f}% of plain Arrow (int32 and utf8 arrays: {plain:.0f} MB)"
