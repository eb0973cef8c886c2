"""Access classes in Spark's JVM that neither pyspark nor Delta's Python package exposes."""

import json
from collections.abc import Iterable, Mapping
from typing import Any


def java_class(name: str) -> Any:
    """Return a class or a Scala object of the running JVM by its full name, such as `java.lang.System`.

    This takes one lookup. For `jvm.java.lang.System`, py4j would search 300 jars for a class `java`, and then for a
    class `java.lang`, which takes several milliseconds.
    """
    from pyspark import SparkContext

    return getattr(SparkContext._jvm, name)  # noqa: SLF001 -- pyspark has no public access to the JVM


def is_instance(value: Any, name: str) -> bool:
    """Return whether a Java object is an instance of a class, given its full name."""
    return bool(java_class("py4j.reflection.TypeUtil").isInstanceOf(name, value))


def as_java(collection: Any) -> Any:
    """Return a Scala collection as a Java collection, which Python can iterate over."""
    return java_class("scala.jdk.javaapi.CollectionConverters").asJava(collection)


def to_dict(strings: Any) -> dict[str, str]:
    """Convert a Scala map of strings to a dictionary, in one Py4J call regardless of the number of entries."""
    mapper = java_class("com.fasterxml.jackson.databind.ObjectMapper")()
    return dict(json.loads(mapper.writeValueAsString(as_java(strings))))


def scala_seq(values: Iterable[Any]) -> Any:
    """Return values as a Scala `Seq`."""
    return java_class("org.apache.spark.api.python.PythonUtils").toSeq(list(values))


def scala_map(values: Mapping[str, Any]) -> Any:
    """Return a mapping as a Scala `Map`."""
    return java_class("org.apache.spark.api.python.PythonUtils").toScalaMap(dict(values))


def no_option() -> Any:
    """Return `None` of Scala's `Option`."""
    return java_class("scala.Option").empty()
