"""Headrace in Spark: ``spark.read.format("headrace")`` and its like.

Spark finds this module by its name. It needs no registration.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from headrace.errors import HeadraceError
from headrace.pipelines.error_messages import without_traceback

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """The format ``headrace``."""

    @classmethod
    def name(cls) -> str:
        return "headrace"

    @without_traceback
    def schema(self) -> StructType | str:
        """The columns of a record, or those that the option ``schema`` declares."""
        from headrace.pipelines.source import adapters, options

        if "schema" in self.options:
            return self.options["schema"]
        return adapters.record_schema(options.chosen_columns(self.options))

    @without_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        from headrace.pipelines.source.adapters import BatchReader

        return BatchReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from headrace.pipelines.source.adapters import RefusedStream, StreamReader

        try:
            return StreamReader(self.options, schema)
        except HeadraceError as error:
            return RefusedStream(error)

    @without_traceback
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from headrace.pipelines.sink.adapters import BatchWriter

        return BatchWriter(self.options, schema, overwrite=overwrite)

    @without_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from headrace.pipelines.sink.adapters import StreamWriter

        return StreamWriter(self.options, schema, overwrite=overwrite)
