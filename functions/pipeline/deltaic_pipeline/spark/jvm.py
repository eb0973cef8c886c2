"""Access classes of Spark's JVM, for what neither pyspark nor Delta's Python package offers."""

import json
from collections.abc import Iterable, Mapping
from typing import Any


def java_class(name: str) -> Any:
    """Return a class or a Scala object of the running JVM by its full name, such as `java.lang.System`.

    The name is looked up once. With `jvm.java.lang.System` py4j would look in each of the 300 jars for a class
    `java`, then for a class `java.lang`: several milliseconds.
    """
    from pyspark import SparkContext

    return getattr(SparkContext._jvm, name)  # noqa: SLF001 -- pyspark has no public access to the JVM


def is_instance(value: Any, name: str) -> bool:
    """Return whether a Java object is an instance of a class, named in full."""
    return bool(java_class("py4j.reflection.TypeUtil").isInstanceOf(name, value))


def as_java(collection: Any) -> Any:
    """Return a Scala collection as a Java collection, which Python can iterate over."""
    return java_class("scala.jdk.javaapi.CollectionConverters").asJava(collection)


def to_dict(strings: Any) -> dict[str, str]:
    """Return a Scala map of strings as a dictionary, by one call however many there are."""
    mapper = java_class("com.fasterxml.jackson.databind.ObjectMapper")()
    return dict(json.loads(mapper.writeValueAsString(as_java(strings))))


def scala_seq(values: Iterable[Any]) -> Any:
    """Return values as a Scala `Seq`."""
    return java_class("org.apache.spark.api.python.PythonUtils").toSeq(list(values))


def scala_map(values: Mapping[str, Any]) -> Any:
    """Return a mapping as a Scala `Map`."""
    return java_class("org.apache.spark.api.python.PythonUtils").toScalaMap(dict(values))


def no_option() -> Any:
    """Return Scala's `None`."""
    return java_class("scala.Option").empty()
