"""Dask, Ray and Spark give the bits of one process, whatever the partitions and lost workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inner import engine_of
from nextloc_metrics import report
from table_calls import evaluate_table

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
engines = pytest.mark.engines
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{warning}")
    for warning in (
        "`use_.*` is deprecated:DeprecationWarning",  # Ray, of its own options
        "PySpark does not yet fully support pandas:FutureWarning",
        "The inplace keyword in DataFrame.reset_index:DeprecationWarning",  # Dask uses it
    )
]

ROWS, SIZE = 230, 40
OPTIONS: Any = {"k": (1, 3), "groups": ["user", "hour"], "cluster": "user", "mask": "counts"}


def of_dask() -> Any:
    """`dask.dataframe`, which takes half a second to import."""
    return pytest.importorskip("dask.dataframe")


# What a kind of predictions needs beside; answers are text of a language model.
OPTIONS_OF: dict[str, Any] = {
    "answers": {
        "answers": {"form": "json", "k": 4},
        "vocabulary": [f"Café {i}" for i in range(SIZE)],
    }
}


def table(kind: str = "lists") -> Any:
    """Predictions of one kind: lists of numbers or text, with wrong ids, or scores."""
    generator = np.random.default_rng(1)
    ids: Any = {"answers": "Café {}".format, "text": "[{}] Café".format}.get(kind, int)
    target = generator.integers(0, SIZE, ROWS)
    lengths = generator.integers(0, 6, ROWS)
    preds: list[Any] = [[ids(int(i)) for i in generator.permutation(SIZE + 5)[:n]] for n in lengths]
    for row in range(0, ROWS, 3):  # a hit in every third row, so that the values are not small
        preds[row] = [ids(int(target[row])), *preds[row][:2]]
    if kind == "scores":
        preds = generator.integers(0, 9, (ROWS, SIZE)).astype(np.float32).tolist()
    if kind == "answers":  # read, unreadable, without text, cut
        texts = [f"Next: {json.dumps(row)}." for row in preds]
        preds = [(x, "Sorry", None, x[:-2])[int(n) % 4] for x, n in zip(texts, target, strict=True)]
    relevant: list[Any] = [ids(int(i)) for i in target]
    if kind == "several":  # the first rows have lists of one id
        relevant = [[i] if i < 30 or row < 90 else [i, 3, 5] for row, i in enumerate(relevant)]
    return pa.table(
        {
            "other": [None] * ROWS,
            "preds": pa.array(preds, pa.list_(pa.float32())) if kind == "scores" else preds,
            "target": relevant,
            "user": [f"user {i}" for i in generator.integers(0, 9, ROWS)],
            "hour": generator.integers(0, 24, ROWS),
            "counts": generator.random(ROWS) < 0.9,
        }
    )


#: of the kinds, for each engine, those whose types differ most
KINDS = ["text", "several", "scores", "answers"]


def show(e: report.Evaluation) -> dict[str, Any]:
    """All numbers of an evaluation, whole, as text: a float is its shortest exact form."""
    tables = {name: found.to_csv() for name, found in e.groups.items()}
    numbers = (e.values, e.intervals, e.chance, e.ties, e.card, tables)
    return {str(i): repr(one) for i, one in enumerate(numbers)}


def partition(frame: Any, partitions: int) -> Any:
    """Return a Dask data frame, with lists as lists."""
    dask_frames = of_dask()
    with pytest.importorskip("dask").config.set({"dataframe.convert-string": False}):
        return dask_frames.from_pandas(frame, npartitions=partitions, sort=False)


def expect(kind: str = "lists") -> dict[str, Any]:
    """All numbers of one process."""
    return show(evaluate(table(kind), kind))


def evaluate(rows: Any, kind: str, **options: Any) -> report.Evaluation:
    """The evaluation of rows of a kind."""
    return evaluate_table(rows, **OPTIONS, **OPTIONS_OF.get(kind, {}), **options)


@pytest.mark.slow  # starts the threads of a cluster
@pytest.mark.parametrize(
    ("kind", "partitions"), [("text", 5), ("several", 5), ("scores", 1), ("lists", 40)]
)
def test_dask_in_threads(kind: str, partitions: int, tmp_path: Path) -> None:
    """Any number of partitions, more than one task merges, gives the numbers of one process.

    The saved counts, from which all numbers are computed, are equal byte for byte, but for the
    random ids of the evaluations.
    """
    files = [tmp_path / "one.npz", tmp_path / "dask.npz"]
    one = evaluate(table(kind), kind)
    found = evaluate(partition(table(kind).to_pandas(), partitions), kind)
    assert show(found) == show(one)
    one.save(files[0])
    found.save(files[1])
    saved = []
    for file in files:
        with np.load(file) as packed:
            arrays = {name: array.tobytes() for name, array in packed.items()}
            header = json.loads(str(packed["header"]))
        del arrays["header"], arrays["checksum"], header["ids"]
        saved.append((header, arrays))
    assert len(saved[0][1]) > 1
    assert saved[0] == saved[1]


@pytest.mark.slow  # runs Dask, and starts processes
def test_answers_of_files_and_of_another_table(tmp_path: Path) -> None:
    """Processes share the files of answers, or of queries; a cluster has both in one table."""
    from pyarrow import parquet

    rows = table("answers").append_column("id", [[f"q{i}" for i in range(ROWS)]])
    for start in range(0, ROWS, 50):
        parquet.write_table(rows[start : start + 50], tmp_path / f"{start}.parquet")
    assert show(evaluate(tmp_path, "answers", workers=2)) == expect("answers")
    said = rows.select(["id", "preds"])[::-1][:200]
    joined = show(evaluate(said, "answers", truth=rows.drop_columns("preds"), query="id"))
    assert f"'missing': {sum(rows['counts'][:30].to_pylist())}" in joined["4"]  # the card
    shared = evaluate(said, "answers", truth=tmp_path, query="id", workers=2)
    assert show(shared) == joined
    frame = partition(rows.to_pandas(), 2)
    for answers, queries in ((frame, rows), (said, frame)):
        with pytest.raises(ValueError, match=r"of a cluster must be one table .* join it there"):
            evaluate(answers, "answers", truth=queries, query="id")


def test_one_process_is_right() -> None:
    """What all engines are compared with is what `evaluate` computes from arrays."""
    rows = table().to_pydict()
    e = report.evaluate(
        rows["preds"],
        rows["target"],
        k=(1, 3),
        groups={name: rows[name] for name in OPTIONS["groups"]},
        cluster="user",
        mask=rows["counts"],
        num_locations=SIZE,
    )
    found = report.evaluate(table(), **OPTIONS)
    assert (found.values, found.intervals) == (e.values, e.intervals)
    assert {name: str(x) for name, x in found.groups.items()} == {
        name: str(x) for name, x in e.groups.items()
    }


@pytest.mark.slow  # runs Dask
def test_partitions_without_rows_or_ids() -> None:
    """Empty partitions, and one with empty lists alone, whose type nothing shows."""
    rows = table().to_pandas()
    rows["preds"] = [[]] * 50 + list(rows["preds"][50:])
    frame = partition(rows, 1).repartition(divisions=(0, 20, 40, 100, ROWS - 1))
    frame = of_dask().concat([frame, frame[frame["hour"] > 99]], interleave_partitions=True)
    expected = show(report.evaluate(pa.Table.from_pandas(rows), **OPTIONS))
    assert show(report.evaluate(frame, **OPTIONS)) == expected


@pytest.mark.slow  # runs Dask
def test_errors_do_not_depend_on_the_partitions() -> None:
    """A row that cannot be read is an error as in one process, or is counted as a miss."""
    rows = pd.DataFrame(table().to_pydict())
    rows["preds"] = rows["preds"].map(str)
    rows.loc[200, "preds"] = "[1, oops"
    with pytest.raises(ValueError, match=r"row .* must hold ids .*oops"):
        report.evaluate(partition(rows, 9), k=1)
    e = report.evaluate(report.Source(partition(rows, 9), on_error="miss"), k=1)
    expected = report.evaluate(report.Source(pa.Table.from_pandas(rows), on_error="miss"), k=1)
    assert show(e) == show(expected)
    assert e.card["broken_answers"] == 1


@pytest.mark.slow  # runs Dask, and starts a process
def test_engines_by_type() -> None:
    """The type of the rows chooses the engine, and no library is imported to find out."""
    frame = table().to_pandas()
    assert engine_of(partition(frame, 2)).__name__.endswith("engines.dask")
    assert [engine_of(x) for x in (frame, table(), "s3://bucket/x", [1], sys)] == [None] * 5
    code = """
import sys
from nextloc_metrics.report.engines import engine_of
assert engine_of([]) is None
assert not {"dask", "ray", "pyspark", "pyarrow", "pandas"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def dying(folder: Path, call: int) -> Callable[[Any], Any]:
    """Return a function of frames whose process is killed by that call with the last row.

    The last of the passes counts. One for the first rows comes before, which reads all of so few
    rows on Ray and Spark.
    """
    path = str(folder)  # a closure: workers cannot import this file

    def die(frame: Any) -> Any:
        if len(frame) and frame["last"].any():
            number = len(os.listdir(path)) + 1
            Path(path, str(number)).touch()
            if number == call:
                os.kill(os.getpid(), signal.SIGKILL)
        return frame

    return die


def with_last(partitions: int = 0) -> Any:
    """Return the rows with a column that is true in the last one."""
    rows = table().to_pandas()
    rows["last"] = [False] * (ROWS - 1) + [True]
    return partition(rows, partitions) if partitions else rows


@pytest.fixture(scope="module")
def dask_cluster() -> Iterator[Any]:
    """Two processes of Dask."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@engines
def test_dask_loses_a_worker(dask_cluster: Any, tmp_path: Path) -> None:
    """A worker is killed while it counts, with what it had counted; the numbers are the same."""
    before = set(dask_cluster.scheduler_info()["workers"])
    with dask_cluster.as_current():
        frame = with_last(20)
        frame = frame.map_partitions(dying(tmp_path, 1), meta=frame._meta)
        assert show(report.evaluate(frame, **OPTIONS)) == expect()
    assert len(list(tmp_path.iterdir())) == 2, "the partition was not counted again"
    assert set(dask_cluster.scheduler_info()["workers"]) != before


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[Any]:
    """A local Ray with two processes."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray
    ray.shutdown()


@engines
def test_tensors_of_ray(ray_cluster: Any) -> None:
    """NumPy arrays, which Ray stores as tensors, are lists of ids or scores."""
    rows = table("scores").to_pandas()
    data = {"preds": np.stack(rows["preds"]), "target": rows["target"].to_numpy()}
    found = ray_cluster.data.from_items(
        [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)],
        override_num_blocks=4,
    )
    expected = report.evaluate(data["preds"], data["target"])
    assert report.evaluate(found).values == expected.values
    lists = [np.array(row, np.int64) for row in table()["preds"].to_pylist()]
    found = ray_cluster.data.from_items(
        [{"preds": p, "target": t} for p, t in zip(lists, rows["target"], strict=True)],
        override_num_blocks=4,
    )
    expected = report.evaluate(table(), k=1)
    assert report.evaluate(found, k=1).values == expected.values


@engines
def test_blocks_of_ray_differ_in_types(ray_cluster: Any) -> None:
    """A block without an id, and integers and floats of other widths, are as in one table."""
    lists, scores = [[1, 2], [1, 2], [], []], [[0.5, 0.25]] * 4
    rows = [{"preds": x, "target": 1} for x in lists]
    found = ray_cluster.data.from_items(rows, override_num_blocks=2)
    found = report.evaluate(found, k=1)
    expected = report.evaluate(pa.Table.from_pylist(rows), k=1)  # all targets are one id: no F1
    assert found.values == pytest.approx(expected.values, abs=0, rel=0, nan_ok=True)
    for cells, wide, narrow in (([[1, 2]] * 4, "i8", "i4"), (scores, "f8", "f4")):
        blocks = [
            pa.table({"preds": pa.array([np.array(x, kind) for x in cells]), "target": [1] * 4})
            for kind in (wide, narrow)
        ]
        found = report.evaluate(ray_cluster.data.from_arrow(blocks), k=1)
        whole = pa.table({"preds": cells * 2, "target": [1] * 8})
        expected = report.evaluate(whole, k=1)
        assert found.values == pytest.approx(expected.values, abs=0, rel=0, nan_ok=True)


@engines
def test_ray_loses_a_worker(ray_cluster: Any, tmp_path: Path) -> None:
    """A worker process is killed while it counts; the numbers are the same."""
    rows = ray_cluster.data.from_pandas(with_last()).repartition(20)
    rows = rows.map_batches(dying(tmp_path, 2), batch_format="pandas", batch_size=None)
    assert show(report.evaluate(rows, **OPTIONS)) == expect()
    assert len(list(tmp_path.iterdir())) == 3, "the block was not counted again"


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A local Spark with two threads, which tries a task four times."""
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@engines
def test_spark_loses_a_worker(spark: Any, tmp_path: Path) -> None:
    """A Python process is killed while it counts; the numbers are the same."""
    rows = with_last().drop(columns="other")
    frame = spark.createDataFrame(rows).repartition(20)
    die = dying(tmp_path, 2)
    frame = frame.mapInPandas(lambda frames: map(die, frames), frame.schema)
    assert show(report.evaluate(frame, **OPTIONS)) == expect()
    assert len(list(tmp_path.iterdir())) == 3, "the partition was not counted again"


def on(engine: str, rows: Any, request: pytest.FixtureRequest, partitions: int = 9) -> Any:
    """Return the rows of a table on an engine, in so many partitions."""
    if engine == "dask":
        request.getfixturevalue("dask_cluster")
        return partition(rows.to_pandas(), partitions)
    if engine == "ray":
        made = request.getfixturevalue("ray_cluster").data.from_arrow(rows)
    else:
        made = request.getfixturevalue("spark").createDataFrame(rows)
    return made.repartition(partitions)


@engines
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ["dask", "ray", "spark"])
def test_processes_of_engines(engine: str, kind: str, request: pytest.FixtureRequest) -> None:
    """Partitions of Dask, blocks of Ray and partitions of Spark give the numbers of one process."""
    rows = table(kind).drop_columns("other") if engine == "spark" else table(kind)
    assert show(evaluate(on(engine, rows, request, 20), kind)) == expect(kind)


@engines
@pytest.mark.parametrize("engine", ["ray", "spark"])
def test_errors_of_other_engines(engine: str, request: pytest.FixtureRequest) -> None:
    """A row that cannot be read is a ValueError with the same text, or is counted as a miss."""
    preds = [str(row) for row in table()["preds"].to_pylist()]
    preds[200] = "[1, oops"
    rows = pa.table({"preds": preds, "target": table()["target"]})
    with pytest.raises(ValueError, match=r"row .* must hold ids .*oops"):
        report.evaluate(on(engine, rows, request), k=1)
    e = report.evaluate(report.Source(on(engine, rows, request), on_error="miss"), k=1)
    assert show(e) == show(report.evaluate(report.Source(rows, on_error="miss"), k=1))


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket with the rows in three Parquet files, on a local S3 server."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    s3 = pytest.importorskip("s3fs").S3FileSystem(skip_instance_cache=True)
    s3.mkdir("answers")
    for number, start in enumerate(range(0, ROWS, 90)):
        with s3.open(f"answers/parts/{number}.parquet", "wb") as file:
            pa.parquet.write_table(table().slice(start, 90), file)
    yield "s3://answers/parts"
    server.stop()


@engines
def test_a_bucket(bucket: str, dask_cluster: Any) -> None:
    """Parquet files of a bucket, by one process and by Dask, are the rows in memory."""
    for rows in (bucket, f"{bucket}/*.parquet", [f"{bucket}/{i}.parquet" for i in range(3)]):
        assert show(report.evaluate(rows, **OPTIONS)) == expect()
    with pytest.importorskip("dask").config.set(scheduler="threads"):
        assert show(report.evaluate(of_dask().read_parquet(bucket), **OPTIONS)) == expect()
