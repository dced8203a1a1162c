"""To whom a look at a stack counts."""

from __future__ import annotations

from bench.profiling import of_samples, of_stacks

LOOP = "loop (offsetwatch/loop.py)"


def test_a_poll_counts_for_the_innermost_module_of_ours_with_what_it_calls_of_others():
    stacks = [
        f"run (threading.py);{LOOP};take (offsetwatch/state/site.py);loads (json.py) 4",
        f"run (threading.py);{LOOP};take (offsetwatch/state/site.py) 3",
        f"run (threading.py);{LOOP} 2",
    ]
    assert of_stacks("\n".join(stacks)) == {
        "offsetwatch/state/site.py": 7,
        "offsetwatch/loop.py": 2,
    }


def test_what_is_nothing_of_ours_is_not_left_out():
    counter = of_stacks("run (threading.py);poll (selectors.py) 5")
    assert counter == {"not ours: poll (selectors.py)": 5}


def test_a_sample_of_the_jvm_counts_for_the_innermost_step_that_has_a_name():
    def sample(*frames: str) -> str:
        lines = "".join(f"    {frame}(Object) line: 1\n" for frame in frames)
        return f"jdk.ExecutionSample {{\n  stackTrace = [\n{lines}  ]\n}}\n"

    writes = "org.apache.spark.sql.execution.arrow.ArrowWriter.write"
    asks = "org.apache.spark.sql.execution.arrow.ArrowWriter.sizeInBytes"
    around = "org.apache.spark.sql.execution.python.PythonArrowInput.write"
    counter = of_samples(
        sample("java.util.HashMap.get", writes, around)
        + sample("org.apache.arrow.vector.VarCharVector.getBufferSize", asks, around)
        + sample("java.util.HashMap.get", around)
        + sample("java.util.HashMap.get")
    )
    assert counter == {
        "a row into the batch for Python": 1,
        "how large is the batch for Python by now? once for each row": 1,
        "between the JVM and Python, all else": 1,
        "all else": 1,
    }
