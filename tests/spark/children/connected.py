"""A pipeline in a session of Spark Connect, which a process with a classic session cannot have."""

import sys

import headrace
from headrace import pipelines


def main(url: str) -> None:
    spark = pipelines.session(master="local[2]", config={"spark.api.mode": "connect"})
    try:
        with headrace.connect(url) as hr:
            made = hr.pipelines.create("p", source="in", to="out", processor="pipeline_jobs:double")
            print(type(spark).__module__, made.run_once(spark=spark))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
